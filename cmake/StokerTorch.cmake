# LibTorch with c10d over Gloo, as the interface target stoker_torch. Headers are "system": their warnings are not ours.
# Debian's by default. With STOKER_LIBTORCH (preset cuda) that of a Python package, whose own CMake files would look for all
# of CUDA: here its CPU part is linked, and what that needs of CUDA may be missing until the program starts. The GPU part
# (libtorch_cuda.so) is opened when a training asks for it.
add_library(stoker_torch INTERFACE)
target_compile_definitions(stoker_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
if(STOKER_LIBTORCH)
  foreach(library torch_cpu c10)
    if(NOT EXISTS ${STOKER_LIBTORCH}/lib/lib${library}.so)
      message(FATAL_ERROR "STOKER_LIBTORCH: ${STOKER_LIBTORCH}/lib/lib${library}.so is missing")
    endif()
    target_link_libraries(stoker_torch INTERFACE ${STOKER_LIBTORCH}/lib/lib${library}.so)
  endforeach()
  target_compile_definitions(stoker_torch INTERFACE FMT_HEADER_ONLY)  # its {fmt} hides ours, of another version
  # Gloo is inside libtorch_cpu.so. Debian's headers serve to declare c10d's process group, which only passes pointers on.
  target_include_directories(stoker_torch SYSTEM INTERFACE
    ${STOKER_LIBTORCH}/include ${STOKER_LIBTORCH}/include/torch/csrc/api/include)
  target_link_options(stoker_torch INTERFACE LINKER:--allow-shlib-undefined)
else()
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)  # tests link them too, from another folder
  find_package(Torch REQUIRED)
  set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL FALSE)
  target_include_directories(stoker_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  target_link_libraries(stoker_torch INTERFACE ${TORCH_LIBRARIES} gloo)
endif()
