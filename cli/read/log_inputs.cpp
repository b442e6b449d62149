// std::filesystem with error codes; symbolic links to folders are not followed.
#include "cli/read/log_inputs.hpp"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/way.hpp"
#include "diagnose/parse/pickle.hpp"

namespace stoker::cli {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMostFiles = 200'000;
constexpr int kDeepest = 64;

bool is_no_log_by_name(const fs::path& path) {
  static constexpr std::array<std::string_view, 15> kOthers{
      ".pt",  ".pth",  ".bin", ".idx", ".safetensors", ".npy", ".so",  ".pyc",
      ".png", ".html", ".db",  ".py",  ".yaml",        ".pkl", ".ckpt"};
  const std::string extension = path.extension().string();
  return std::find(kOthers.begin(), kOthers.end(), extension) != kOthers.end();
}

// Compressed files look binary too; their name shows it.
bool is_binary(const fs::path& path) {
  static constexpr std::array<std::string_view, 4> kPacked{".gz", ".zst", ".xz", ".bz2"};
  const std::string extension = path.extension().string();
  if (std::find(kPacked.begin(), kPacked.end(), extension) != kPacked.end()) return false;
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  std::array<char, 4096> head;
  const ssize_t got = fd ? ::read(fd.get(), head.data(), head.size()) : 0;
  const std::string_view bytes(head.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (diagnose::is_pickle(bytes)) return false;
  const auto nul = static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), '\0'));
  return nul * 10 > bytes.size();  // a log may have a hole of NUL bytes
}

void add_folder(const std::string& folder, bool kernel_log, LogInputs& inputs) {
  std::vector<std::string> found;
  std::size_t left_out = 0, too_deep = 0, foreign_links = 0;
  std::error_code error;
  auto walk = fs::recursive_directory_iterator(
      folder, fs::directory_options::skip_permission_denied, error);
  for (const auto end = fs::recursive_directory_iterator(); !error && walk != end;
       walk.increment(error)) {
    std::error_code ignored;
    if (walk.depth() >= kDeepest && walk->is_directory(ignored)) {
      walk.disable_recursion_pending();
      ++too_deep;
    }
    // Another user's link in a shared folder: what it names would stand in a page that is passed
    // on.
    if (walk->is_symlink(ignored) && !os::check_way(walk->path().string())) {
      ++foreign_links;
      continue;
    }
    if (!walk->is_regular_file(ignored)) continue;
    if (is_no_log_by_name(walk->path()) || is_binary(walk->path()) || found.size() >= kMostFiles) {
      ++left_out;
      continue;
    }
    found.push_back(walk->path().string());
  }
  if (error) inputs.errors.push_back(folder + ": " + error.message());
  if (left_out > 0)
    inputs.notes.push_back(fmt::format("{}: {} files that are no logs left out", folder, left_out));
  if (foreign_links > 0)
    inputs.notes.push_back(
        fmt::format("{}: {} links of other users left out", folder, foreign_links));
  if (too_deep > 0)
    inputs.notes.push_back(fmt::format("{}: {} folders more than {} levels deep left out", folder,
                                       too_deep, kDeepest));
  if (found.empty() && !error) inputs.errors.push_back(folder + ": no logs in this folder");
  std::sort(found.begin(), found.end());
  for (auto& path : found)  // one of them may be exchanged for a link until it is read
    inputs.files.push_back({std::move(path), kernel_log, diagnose::Links::Trusted});
}

}  // namespace

void add_log_inputs(const std::vector<std::string>& named, bool kernel_log, LogInputs& inputs) {
  for (const auto& name : named) {
    std::error_code error;
    if (name == "-") {
      inputs.files.push_back({name, kernel_log});
    } else if (fs::is_directory(name, error)) {
      add_folder(name, kernel_log, inputs);
    } else if (fs::exists(fs::symlink_status(name, error))) {
      inputs.files.push_back({name, kernel_log});
    } else if (const auto paths = os::matching_paths(name); !paths.empty()) {
      for (const auto& path : paths) {
        if (fs::is_directory(path, error))
          add_folder(path, kernel_log, inputs);
        else
          inputs.files.push_back({path, kernel_log});
      }
    } else {
      inputs.errors.push_back(name + ": no such file, folder or pattern");
    }
  }
}

}  // namespace stoker::cli
