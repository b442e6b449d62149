// The journal's names of events and actions in words for people. JSON keeps the names.
#pragma once

#include <string>
#include <string_view>

namespace stoker::cli {

// "agent_said" -> "report of the agents"; a name that is not known stays as it is.
std::string event_words(std::string_view kind);

// "send_alert demo/7/0 hang resolved" -> "alert: hang resolved", "write_control demo/7/1" -> "order
// to the agents (demo/7/1)": the key finds the effect in `stoker events`.
std::string action_words(std::string_view action);

}  // namespace stoker::cli
