#include "cli/read/held_alerts.hpp"

#include <algorithm>
#include <iterator>

#include "cli/read/published.hpp"

namespace stoker::cli {

Result<std::vector<wire::HeldAlert>> held_alerts(const std::string& state) {
  return published_document<std::vector<wire::HeldAlert>>(state, "held.json");
}

std::vector<wire::HeldAlert> held_of(const std::vector<wire::HeldAlert>& held,
                                     const std::string& id) {
  std::vector<wire::HeldAlert> found;
  std::copy_if(held.begin(), held.end(), std::back_inserter(found),
               [&](const wire::HeldAlert& h) { return h.id == id; });
  return found;
}

std::string held_text(const wire::HeldAlert& held) {
  return "not sent" + (held.sink.empty() ? "" : " to " + held.sink) + ": " + held.rule +
         (held.until.empty() ? ", until that is over" : ", until " + held.until);
}

}  // namespace stoker::cli
