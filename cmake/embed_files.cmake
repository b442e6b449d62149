# Run by stoker_embed: writes one C++ source with the text of all FILES, named relative to ROOT.
set(source "#include \"diagnose/embedded_data.hpp\"\nnamespace stoker::diagnose {\nstatic const EmbeddedFile kFiles[] = {\n")
foreach(file ${FILES})
  file(RELATIVE_PATH name ${ROOT} ${file})
  file(READ ${file} text HEX)  # as hex: CMake would take ';' and '[' in the text for its own
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" text "${text}")
  string(APPEND source "{\"${name}\", \"${text}\"},\n")
endforeach()
string(APPEND source "};\nstd::span<const EmbeddedFile> embedded_files() { return kFiles; }\n}\n")
file(WRITE ${OUTPUT}.new "${source}")
file(RENAME ${OUTPUT}.new ${OUTPUT})
