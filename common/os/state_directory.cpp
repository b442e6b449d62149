#include "common/os/state_directory.hpp"

#include <array>
#include <cstdlib>
#include <pwd.h>
#include <unistd.h>

namespace stoker::os {
namespace {

std::string home_of_user() {
  std::array<char, 16384> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr && found->pw_dir != nullptr ? found->pw_dir : "/";
}

}  // namespace

std::string default_state(const std::map<std::string, std::string>& environment) {
  const auto get = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  if (const std::string state = get("STOKER_STATE"); !state.empty()) return state;
  if (const std::string xdg = get("XDG_STATE_HOME"); !xdg.empty()) return xdg + "/stoker";
  const std::string home = get("HOME");
  return (home.empty() ? home_of_user() : home) + "/.local/state/stoker";
}

std::string default_state() {
  std::map<std::string, std::string> environment;
  for (const char* name : {"STOKER_STATE", "XDG_STATE_HOME", "HOME"})
    if (const char* value = std::getenv(name)) environment[name] = value;
  return default_state(environment);
}

}  // namespace stoker::os
