// A folder of a test's own that goes away with it, and what tests do to files.
#pragma once

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <string>

namespace stoker::testing {

struct Folder {
  std::string path;

  Folder() {
    path = (std::filesystem::temp_directory_path() / "stoker-test-XXXXXX").string();
    REQUIRE(::mkdtemp(path.data()) != nullptr);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string operator/(const std::string& name) const { return path + "/" + name; }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::app | std::ios::binary) << text;
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::trunc | std::ios::binary) << text;
    return *this / name;
  }
};

}  // namespace stoker::testing
