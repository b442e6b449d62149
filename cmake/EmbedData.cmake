# stoker_embed(stoker_diagnose configs/signatures/*.yaml …): the files become part of the library as text, so that an
# installed program needs no files beside it. diagnose/embedded_data.hpp declares how they are read.
function(stoker_embed target)
  set(output ${CMAKE_BINARY_DIR}/embedded/${target}_data.cpp)
  set(patterns ${ARGN})
  list(TRANSFORM patterns PREPEND ${CMAKE_SOURCE_DIR}/)
  file(GLOB files CONFIGURE_DEPENDS ${patterns})
  list(SORT files)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${output}" "-DROOT=${CMAKE_SOURCE_DIR}" "-DFILES=${files}"
            -P ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed_files.cmake VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
