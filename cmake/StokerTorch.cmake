# LibTorch with c10d over Gloo, as the interface target stoker_torch. Headers are "system": their warnings are not ours.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL TRUE)  # tests link them too, from another folder
find_package(Torch REQUIRED)
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL FALSE)
add_library(stoker_torch INTERFACE)
target_include_directories(stoker_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(stoker_torch INTERFACE ${TORCH_LIBRARIES} gloo)
target_compile_definitions(stoker_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
