// Files that are part of stoker-agent. Written by cmake/embed_files.cmake at build time.
#pragma once

#include <span>
#include <string_view>

namespace stoker::agent {

struct EmbeddedFile {
  std::string_view name;  // "worker/agent/rank/python_standby.py"
  std::string_view text;
};

std::span<const EmbeddedFile> embedded_files();

}  // namespace stoker::agent
