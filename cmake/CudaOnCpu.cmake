# test_cuda_on_cpu: kernels/*.cu as C++ on an emulated grid (tests/cuda_on_cpu), always under the address and
# undefined-behaviour sanitizers, which see every index. They do not go together with the thread sanitizer.
if(CMAKE_CXX_FLAGS MATCHES "fsanitize=thread|fsanitize=fuzzer")
  return()
endif()
find_package(Boost 1.74 REQUIRED COMPONENTS context)
file(GLOB cuda_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.cu)
file(GLOB_RECURSE cuda_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda_on_cpu/*.cpp)
set_source_files_properties(${cuda_kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-xc++")
# What of the trainer knows CUDA, and an NCCL that moves bytes on the emulated streams.
set(cuda_device ${CMAKE_SOURCE_DIR}/worker/train/device/cuda_device.cpp
  ${CMAKE_SOURCE_DIR}/worker/train/device/cuda_graph.cpp
  ${CMAKE_SOURCE_DIR}/worker/train/comm/nccl_comm.cpp
  ${CMAKE_SOURCE_DIR}/worker/train/comm/nccl_pairs.cpp fake_nccl/moving_nccl.cpp)
add_executable(test_cuda_on_cpu ${cuda_kernels} ${cuda_device} ${cuda_tests})
set_target_properties(test_cuda_on_cpu PROPERTIES UNITY_BUILD OFF)
target_include_directories(test_cuda_on_cpu PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/cuda_on_cpu/emulator)
target_compile_definitions(test_cuda_on_cpu PRIVATE STOKER_EMULATED)
target_compile_options(test_cuda_on_cpu PRIVATE
  -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined)
target_link_options(test_cuda_on_cpu PRIVATE -fsanitize=address,undefined)
target_link_libraries(test_cuda_on_cpu PRIVATE
  stoker_options stoker_test_main doctest::doctest stoker_train_lib Boost::context)
doctest_discover_tests(test_cuda_on_cpu TEST_PREFIX "cuda_on_cpu: "
  PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED:" TIMEOUT ${STOKER_TEST_LIMIT_S} LABELS unit)
