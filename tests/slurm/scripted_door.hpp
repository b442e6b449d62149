// A scripted slurmrestd: answers by method and path, requests remembered.
#pragma once

#include <deque>
#include <doctest/doctest.h>
#include <map>
#include <vector>

#include "common/os/files.hpp"
#include "slurm/rest/rest_door.hpp"

namespace stoker::slurm::testing {

inline RestAnswer answers(long status, const std::string& body) {
  RestAnswer answer;
  answer.status = status;
  answer.body = body;
  return answer;
}

// What slurmrestd 22.05.8 answered; names of user, cluster and folders were changed.
inline std::string captured(const std::string& name) {
  const auto text =
      os::read_file(std::string(STOKER_SOURCE_DIR) + "/tests/slurm/rest/22.05.8/" + name + ".json");
  REQUIRE(text.has_value());
  return *text;
}

class ScriptedDoor final : public RestDoor {
 public:
  // "GET jobs" -> the answers, in order; the last one stays. Everything else is 404, as from a
  // server without that version.
  std::map<std::string, std::deque<RestAnswer>> script;
  std::vector<RestRequest> requests;
  std::size_t piece = 1000;  // bytes that arrive at once

  ScriptedDoor() { script["GET ping"] = {answers(200, captured("ping"))}; }

  RestAnswer ask(const RestRequest& request, const Take& take) override {
    requests.push_back(request);
    constexpr std::string_view kBase = "/slurm/v0.0.38/";
    const std::string path =
        request.path.starts_with(kBase) ? request.path.substr(kBase.size()) : "of another version";
    const auto found = script.find(request.method + " " + path);
    if (found == script.end() || found->second.empty())
      return answers(404, "Unable find requested URL. Please view /openapi/v3 for API reference.");
    RestAnswer answer = found->second.front();
    if (found->second.size() > 1) found->second.pop_front();
    if (!take || answer.status != 200) return answer;
    std::string_view rest = answer.body;
    while (!rest.empty() && take(rest.substr(0, piece)))
      rest.remove_prefix(std::min(piece, rest.size()));
    answer.body.clear();
    return answer;
  }
  [[nodiscard]] std::string name() const override { return "unix:/run/slurmrestd.sock"; }
  // Without those for the version.
  [[nodiscard]] std::size_t count(const std::string& method, const std::string& end) const {
    std::size_t n = 0;
    for (const RestRequest& request : requests)
      n += request.method == method && request.path.ends_with(end) ? 1 : 0;
    return n;
  }
};

}  // namespace stoker::slurm::testing
