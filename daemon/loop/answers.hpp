// Answers to requests of the control socket: refused, accepted, or as the journal's rows say.
#pragma once

#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "wire/socket.hpp"

namespace stoker::daemon {

wire::Response refuse(std::string message);
wire::Response accept(std::string message, Json data = Json::object());
// What was decided; `dry_run`: what would be.
wire::Response response_of(const core::Decision& decision, bool dry_run);

// The decision about our input in the rows of its turn.
template <class Body>
wire::Response find_answer(const std::vector<core::JournalRow>& rows, const Body& body) {
  for (const core::JournalRow& row : rows)
    if (const auto* asked = std::get_if<Body>(&row.event.body); asked != nullptr && *asked == body)
      return response_of(row.decision, false);
  return accept("done");
}

}  // namespace stoker::daemon
