// A folder of a test's own, and the three things that tests do to files.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace stoker::watch::testing {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "stoker-watch-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::app | std::ios::binary) << text;
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(*this / name, std::ios::trunc | std::ios::binary) << text;
  }

 private:
  std::string path_;
};

}  // namespace stoker::watch::testing
