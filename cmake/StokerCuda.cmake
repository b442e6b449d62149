# The preset cuda: kernels/*.cu by nvcc, for sm_90 unless CMAKE_CUDA_ARCHITECTURES says otherwise, and the tests of
# tests/cuda_on_cpu against them on a real card (gpu_kernels). Its target `gpu` is all that differs from the CPU's build.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90)
endif()
enable_language(CUDA)
if(CCACHE)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # LibTorch's: one runtime in a process

file(GLOB cuda_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.cu)
add_library(stoker_kernels_cuda STATIC ${cuda_kernels})
# Functions that are constexpr serve both sides.
target_compile_options(stoker_kernels_cuda PUBLIC $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
target_link_libraries(stoker_kernels_cuda PUBLIC stoker_kernels)
# The bits of the CPU: no multiplication and addition in one rounding.
set_source_files_properties(${CMAKE_SOURCE_DIR}/kernels/adamw.cu ${CMAKE_SOURCE_DIR}/kernels/dropout.cu
  PROPERTIES COMPILE_OPTIONS -fmad=false)

find_package(doctest REQUIRED)
set(cuda_tests ${CMAKE_SOURCE_DIR}/tests/cuda_on_cpu)
file(GLOB gpu_tests CONFIGURE_DEPENDS ${cuda_tests}/*_test.cpp)
# Those of the emulator, of what it plays, and of the trainer.
list(FILTER gpu_tests EXCLUDE REGEX "/(emulator|device|device_faults|nccl_comm)_test")
set_source_files_properties(${gpu_tests} PROPERTIES LANGUAGE CUDA)
add_executable(gpu_kernels ${gpu_tests} ${CMAKE_SOURCE_DIR}/tests/gpu/main.cpp)
target_link_libraries(gpu_kernels PRIVATE stoker_kernels_cuda doctest::doctest)
target_include_directories(gpu_kernels PRIVATE ${CMAKE_SOURCE_DIR})
target_include_directories(gpu_kernels SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
# Flat state, optimizer, saving and NCCL on the card.
add_executable(gpu_state ${cuda_tests}/device_test.cpp ${CMAKE_SOURCE_DIR}/tests/gpu/nccl_test.cpp
  ${CMAKE_SOURCE_DIR}/tests/gpu/main.cpp)
target_link_libraries(gpu_state PRIVATE stoker_options stoker_train_cuda doctest::doctest)
target_include_directories(gpu_state SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
add_executable(gpu_speed ${CMAKE_SOURCE_DIR}/tests/gpu/kernel_speed.cu)  # bandwidths, as JSON
target_link_libraries(gpu_speed PRIVATE stoker_kernels_cuda)
target_include_directories(gpu_speed PRIVATE ${CMAKE_SOURCE_DIR})
add_library(gpu_free_order MODULE ${CMAKE_SOURCE_DIR}/tests/gpu/free_order.cpp)  # for LD_PRELOAD
set_target_properties(gpu_free_order PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set_target_properties(gpu_state gpu_kernels gpu_speed gpu_free_order PROPERTIES UNITY_BUILD OFF)
add_custom_target(gpu DEPENDS gpu_kernels gpu_state gpu_speed gpu_free_order $<TARGET_NAME_IF_EXISTS:stoker-train> $<TARGET_NAME_IF_EXISTS:stoker-agent>
  $<TARGET_NAME_IF_EXISTS:test_train_torch>)
