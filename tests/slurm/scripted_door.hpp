// A scripted slurmrestd: answers by method and path, requests remembered.
#pragma once

#include <deque>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <map>
#include <vector>

#include "common/json.hpp"
#include "common/os/files.hpp"
#include "slurm/rest/rest_door.hpp"

namespace stoker::slurm::testing {

inline RestAnswer answers(long status, const std::string& body) {
  RestAnswer answer;
  answer.status = status;
  answer.body = body;
  return answer;
}

// What slurmrestd answered: that of 22.05.8 in v0.0.38, that of 24.11.5 in v0.0.40 to v0.0.42;
// names of user, cluster and folders were changed.
inline std::string captured(const std::string& name, int api = 38) {
  const std::string folder = api == 38 ? "22.05.8/" : fmt::format("24.11.5/v0.0.{}/", api);
  const auto text = os::read_file(std::string(STOKER_SOURCE_DIR) + "/tests/slurm/rest/" + folder +
                                  name + ".json");
  REQUIRE(text.has_value());
  return *text;
}

// Of 24.11.5, with its HTTP status.
inline RestAnswer captured_answer(const std::string& name, int api) {
  const auto status = parse_json(captured("status", api), "status");
  REQUIRE(status.has_value());
  return answers(status->at(name).get<long>(), captured(name, api));
}

class ScriptedDoor final : public RestDoor {
 public:
  // "GET jobs" -> the answers, in order; the last one stays. Everything else is 404, as from a
  // server without that version.
  std::map<std::string, std::deque<RestAnswer>> script;
  std::vector<RestRequest> requests;
  std::size_t piece = 1000;  // bytes that arrive at once

  explicit ScriptedDoor(int api = 38) : base_(fmt::format("/slurm/v0.0.{}/", api)) {
    script["GET ping"] = {answers(200, captured("ping", api))};
  }

  RestAnswer ask(const RestRequest& request, const Take& take) override {
    requests.push_back(request);
    const std::string path =
        request.path.starts_with(base_) ? request.path.substr(base_.size()) : "of another version";
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
  // The body of the last request of this method.
  [[nodiscard]] std::string sent(const std::string& method) const {
    std::string body;
    for (const RestRequest& request : requests)
      if (request.method == method) body = request.body;
    return body;
  }

 private:
  std::string base_;
};

}  // namespace stoker::slurm::testing
