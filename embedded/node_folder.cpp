#include "embedded/node_folder.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/own_files.hpp"

namespace stoker::embedded {
namespace {

constexpr std::size_t kExitRoom = 4096;  // exit.json never grows beyond one block

template <class T>
Result<std::optional<T>> read_optional(const std::string& folder, const std::string& name) {
  STOKER_TRY(text, os::find_own_file(folder, name, 1u << 20));
  if (!text) return std::optional<T>{};
  STOKER_TRY(value, from_json_text<T>(*text, folder + "/" + name));
  return std::optional<T>(value);
}

}  // namespace

NodeFolder::NodeFolder(const std::string& cluster_folder, const JobId& job, std::uint32_t restart,
                       const NodeName& node)
    : path_(fmt::format("{}/jobs/{}/r{}/{}", cluster_folder, job.text(), restart, node.text)) {}

Status NodeFolder::write_spec(const NodeSpec& spec) const {
  STOKER_TRY_STATUS(os::make_directories(path_, 0700));
  STOKER_TRY_STATUS(os::check_own(path_));
  return os::replace_file(path_ + "/spec.json", to_json_text(spec), os::Durability::Cached, 0600);
}

Result<NodeSpec> NodeFolder::read_spec() const {
  STOKER_TRY(text, os::read_own_file(path_, "spec.json", 8u << 20));
  return from_json_text<NodeSpec>(text, path_ + "/spec.json");
}

Result<bool> NodeFolder::claim(const NodeAlive& alive) const {
  return os::claim_file(path_ + "/alive.json", to_json_text(alive), 0600);
}

Result<std::optional<NodeAlive>> NodeFolder::read_alive() const {
  return read_optional<NodeAlive>(path_, "alive.json");
}

Result<std::optional<NodeExit>> NodeFolder::read_exit() const {
  return read_optional<NodeExit>(path_, "exit.json");
}

Status NodeFolder::reserve_exit() const {
  const std::string aside = path_ + "/exit.aside";
  const os::Fd fd(::open(aside.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail(errno_error(errno, "cannot create", aside));
  const std::string blanks(kExitRoom, ' ');
  if (::pwrite(fd.get(), blanks.data(), blanks.size(), 0) != static_cast<ssize_t>(blanks.size()))
    return fail(errno_error(errno, "cannot reserve room", aside));
  return ok();
}

Status NodeFolder::write_exit(const NodeExit& exit) const {
  NodeExit bounded = exit;
  bounded.detail.resize(std::min<std::size_t>(bounded.detail.size(), 512));
  std::string text = to_json_text(bounded);
  text.resize(std::min(text.size(), kExitRoom), ' ');
  text.resize(kExitRoom, ' ');  // in place: no block is allocated now
  const std::string aside = path_ + "/exit.aside";
  const std::string final_name = path_ + "/exit.json";
  const os::Fd fd(::open(aside.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) return fail(errno_error(errno, "cannot create", aside));
  if (::pwrite(fd.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    return fail(errno_error(errno, "cannot write", aside));
  if (::fsync(fd.get()) != 0) return fail(errno_error(errno, "cannot sync", aside));
  if (::rename(aside.c_str(), final_name.c_str()) != 0)
    return fail(errno_error(errno, "cannot rename", final_name));
  return ok();
}

int signal_number(const std::string& name) {
  std::string_view stem = name;
  if (stem.substr(0, 3) == "SIG") stem.remove_prefix(3);
  for (int s = 1; s < 32; ++s) {
    const char* abbreviation = ::sigabbrev_np(s);
    if (abbreviation != nullptr && stem == abbreviation) return s;
    if (stem == std::to_string(s)) return s;
  }
  return 0;
}

}  // namespace stoker::embedded
