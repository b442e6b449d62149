// A sink of each kind, with its secrets in files.
#pragma once

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <string>
#include <vector>

#include "common/os/files.hpp"
#include "core/alerts/alert_policy.hpp"

namespace stoker::alerts::test {

class Secrets {
 public:
  Secrets() {
    path = (std::filesystem::temp_directory_path() / "stoker-render-XXXXXX").string();
    REQUIRE(::mkdtemp(path.data()) != nullptr);
  }
  ~Secrets() { std::filesystem::remove_all(path); }
  Secrets(const Secrets&) = delete;
  Secrets& operator=(const Secrets&) = delete;
  [[nodiscard]] std::string keep(const std::string& name, const std::string& text) const {
    REQUIRE(os::replace_file(path + "/" + name, text + "\n", os::Durability::Cached, 0600));
    return path + "/" + name;
  }
  std::string path;
};

inline std::vector<core::SinkPolicy> one_of_each(const Secrets& secrets) {
  const std::string hook =
      secrets.keep("hook", "https://hooks.example.org/services/T0/B0/secret-hook");
  const std::string key = secrets.keep("key", "0123456789abcdef0123456789abcdef");
  return {
      {"mail",
       "email",
       {{"server", "smtp://relay.example.org:587"},
        {"from", "stoker@example.org"},
        {"to", R"(["oncall@example.org","team@example.org"])"},
        {"user", "stoker"},
        {"password_file", key}}},
      {"am", "alertmanager", {{"url", "http://am.example.org:9093"}}},
      {"chat", "slack", {{"url_file", hook}}},
      {"own", "mattermost", {{"url_file", hook}}},
      {"game", "discord", {{"url_file", hook}}},
      {"office", "teams", {{"url_file", hook}}},
      {"page", "pagerduty", {{"routing_key_file", key}}},
      {"duty", "opsgenie", {{"key_file", key}}},
      {"phone", "ntfy", {{"url", "https://ntfy.example.org/my-topic"}, {"token_file", key}}},
      {"room",
       "matrix",
       {{"url", "https://matrix.example.org"}, {"room", "!r:example.org"}, {"token_file", key}}},
      {"logs", "otlp", {{"url", "https://otlp.example.org"}}},
      {"hook", "webhook", {{"url", "https://bridge.example.org/x"}}},
      {"form",
       "webhook",
       {{"url", "https://bridge.example.org/x"},
        {"template", R"({"text": "{title}", "more": {"why": "{reason}"}, "sev": "{severity}"})"}}},
      {"run", "exec", {{"command", R"(["/usr/bin/notify","--to","a,b"])"}}},
      {"file", "pulse", {{"path", "/var/log/pulse.log"}}},
  };
}

}  // namespace stoker::alerts::test
