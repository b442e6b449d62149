// The files of the page that are part of the program: daemon/page/ and the chart library (dygraphs,
// MIT). Written by cmake/embed_files.cmake at build time.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace stoker::daemon {

struct EmbeddedFile {
  std::string_view name;  // "daemon/page/page.js", "dygraph.min.js"
  std::string_view text;
};

std::span<const EmbeddedFile> embedded_files();  // sorted by path

// By the last part of its name.
std::optional<std::string_view> asset(std::string_view name);

}  // namespace stoker::daemon
