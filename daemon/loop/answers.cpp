#include "daemon/loop/answers.hpp"

#include <fmt/format.h>

#include "core/secrets.hpp"

namespace stoker::daemon {
namespace {

Json decision_data(const core::Decision& decision) {
  Json actions = Json::array();
  for (const core::Action& action : decision.actions)
    actions.push_back(core::without_secrets(Json(action)));
  return {{"from", decision.from}, {"to", decision.to}, {"actions", actions}};
}

}  // namespace

wire::Response refuse(std::string message) {
  wire::Response response;
  response.message = std::move(message);
  return response;
}
wire::Response accept(std::string message, Json data) {
  wire::Response response;
  response.ok = true;
  response.message = std::move(message);
  response.data = std::move(data);
  return response;
}

wire::Response response_of(const core::Decision& decision, bool dry_run) {
  auto response = decision.rejected ? refuse(decision.reason) : accept(decision.reason);
  response.data = decision_data(decision);
  if (response.message.empty()) response.message = "nothing to do";
  if (!dry_run || decision.rejected) return response;
  std::string actions;
  for (const core::Action& action : decision.actions)
    actions += fmt::format("{}{}", actions.empty() ? "" : ", ", core::kind_of(action));
  response.message =
      fmt::format("would: {}{}", response.message, actions.empty() ? "" : " (" + actions + ")");
  return response;
}

}  // namespace stoker::daemon
