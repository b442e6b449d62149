// The data files that are part of the program: signatures, causes, classes, Xid catalogues. Written
// by cmake/embed_files.cmake at build time from configs/.
#pragma once

#include <span>
#include <string_view>

namespace stoker::diagnose {

struct EmbeddedFile {
  std::string_view name;  // "configs/signatures/cuda.yaml"
  std::string_view text;
};

std::span<const EmbeddedFile> embedded_files();  // sorted by name

}  // namespace stoker::diagnose
