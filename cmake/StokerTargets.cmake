# How every target of this tree is made: one static library a folder, one doctest program a tests/ folder.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(stoker_options INTERFACE)
target_compile_options(stoker_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -fno-omit-frame-pointer
  -ffp-contract=off)  # the decider gives the same bits on every CPU
target_include_directories(stoker_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(stoker_options INTERFACE STOKER_VERSION="${PROJECT_VERSION}")
if(CMAKE_UNITY_BUILD)
  target_compile_options(stoker_options INTERFACE -Wno-subobject-linkage)  # takes every included .cpp for a header
endif()
if(STOKER_WERROR)
  target_compile_options(stoker_options INTERFACE -Werror)
endif()
# A daemon that lives for months and reads what strangers write. Needs an optimized build: preset release.
if(STOKER_HARDEN)
  include(CheckCXXCompilerFlag)
  include(CheckPIESupported)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  check_pie_supported()
  target_compile_options(stoker_options INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -mbranch-protection=standard)
    string(MAKE_C_IDENTIFIER "STOKER_HAS${flag}" known)
    check_cxx_compiler_flag(${flag} ${known})
    if(${known})
      target_compile_options(stoker_options INTERFACE ${flag})
    endif()
  endforeach()
  target_link_options(stoker_options INTERFACE LINKER:-z,relro,-z,now,-z,noexecstack)
endif()
find_program(LLD ld.lld)
if(LLD)
  target_link_options(stoker_options INTERFACE -fuse-ld=lld)
endif()

# What nearly every file includes is compiled once: three quarters of a small file's time. Of our own headers none, so
# that a change of ours compiles only what it reaches.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cpp CONTENT "")
add_library(stoker_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
target_link_libraries(stoker_precompiled PRIVATE stoker_options fmt::fmt nlohmann_json::nlohmann_json)
target_precompile_headers(stoker_precompiled PRIVATE
  <algorithm> <array> <atomic> <chrono> <cstdint> <deque> <filesystem> <functional> <map> <memory> <mutex> <optional>
  <set> <span> <string> <string_view> <thread> <variant> <vector> <fmt/format.h> <nlohmann/json.hpp>)
# clang++ would use adl_serializer<double> at the end of the precompiled header, before common/json.hpp says what it is.
set_target_properties(stoker_precompiled PROPERTIES UNITY_BUILD OFF PCH_INSTANTIATE_TEMPLATES OFF)
function(stoker_precompiled target)
  target_precompile_headers(${target} REUSE_FROM stoker_precompiled)
endfunction()

# With CMAKE_UNITY_BUILD (presets once, asan, tsan) the sources of a target are compiled many at once; cmake/batches.py keeps
# files apart that define the same name. Call it in the folder that made the target.
function(stoker_unity target)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  execute_process(COMMAND python3 ${CMAKE_SOURCE_DIR}/cmake/batches.py ${sources}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    OUTPUT_VARIABLE lines OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${lines}")
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^([0-9]+)\t(.*)$" matched "${line}")
    set_source_files_properties(${CMAKE_MATCH_2} PROPERTIES UNITY_GROUP "batch${CMAKE_MATCH_1}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/batches.py)
endfunction()

# stoker_library(common [LIGHT] PUBLIC deps...): libstoker_common.a from common/**/*.cpp (worker/ has its own lists).
function(stoker_library name)
  cmake_parse_arguments(ARG "LIGHT" "" "PUBLIC" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.cpp)
  if(sources)
    add_library(stoker_${name} STATIC ${sources})
    target_link_libraries(stoker_${name} PRIVATE stoker_options PUBLIC ${ARG_PUBLIC})
    target_include_directories(stoker_${name} PUBLIC ${CMAKE_SOURCE_DIR})
    if(ARG_LIGHT)
      target_compile_options(stoker_${name} PRIVATE ${STOKER_LIGHT_OPTIONS})
    endif()
    stoker_unity(stoker_${name})
    if(NOT name STREQUAL kernels)  # other options, and headers hardly matter there
      stoker_precompiled(stoker_${name})
    endif()
  else()
    add_library(stoker_${name} INTERFACE)
    target_link_libraries(stoker_${name} INTERFACE ${ARG_PUBLIC})
    target_include_directories(stoker_${name} INTERFACE ${CMAKE_SOURCE_DIR})
  endif()
endfunction()

# stoker_tests(core DEPS stoker_core ...): one program test_core from tests/core/**/*_test.cpp, one ctest test a case.
# A case that cannot run here prints a line that starts with "SKIPPED:" and is counted as skipped.
function(stoker_tests name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cpp)
  if(NOT sources)
    return()
  endif()
  string(REPLACE "/" "_" target test_${name})
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE stoker_options stoker_test_main doctest::doctest ${ARG_DEPS})
  target_compile_options(${target} PRIVATE ${STOKER_LIGHT_OPTIONS})
  stoker_unity(${target})
  if(NOT name STREQUAL train_torch)  # LibTorch's macros do not fit
    stoker_precompiled(${target})
    # g++ 12 warns of long literals in std::string once <string> comes from a precompiled header (GCC bug 105329).
    target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
  doctest_discover_tests(${target} TEST_PREFIX "${name}: "
    PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED:" TIMEOUT ${STOKER_TEST_LIMIT_S} LABELS unit)
endfunction()
