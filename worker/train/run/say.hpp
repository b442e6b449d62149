// Lines on stdout and stderr, made printable (texts, paths and manifests are of others), one
// write(2) each, so that lines of many ranks never mix and nothing waits in a buffer when the
// process is killed.
#pragma once

#include <string_view>

#include "common/json.hpp"
#include "common/result.hpp"
#include "wire/agent_event.hpp"

namespace stoker::train {

void say(std::string_view line);
void say_json(const Json& document);   // its texts are as they are
void complain(std::string_view line);  // stderr, behind "stoker-train: "
void complain(const Error& error);
// `stoker-event WORD {json}`: the agent turns it into an event of the run. Started by hand there is
// no word, and it is a line for people.
void tell_event(const wire::AgentBody& body);

}  // namespace stoker::train
