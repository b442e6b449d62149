# stoker_embed(stoker_diagnose HEADER diagnose/embedded_data.hpp NAMESPACE stoker::diagnose FILES configs/signatures/*.yaml …):
# the files become part of the library as text, so that an installed program needs no files beside it. The header declares
# EmbeddedFile and embedded_files(). A name is the path in this tree; of files elsewhere the last part.
function(stoker_embed target)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "FILES" ${ARGN})
  set(output ${CMAKE_BINARY_DIR}/embedded/${target}_data.cpp)
  set(patterns)
  foreach(pattern IN LISTS ARG_FILES)
    cmake_path(ABSOLUTE_PATH pattern BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    list(APPEND patterns ${pattern})
  endforeach()
  file(GLOB files CONFIGURE_DEPENDS ${patterns})
  list(SORT files)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${output}" "-DROOT=${CMAKE_SOURCE_DIR}" "-DFILES=${files}"
            "-DHEADER=${ARG_HEADER}" "-DNAMESPACE=${ARG_NAMESPACE}"
            -P ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
