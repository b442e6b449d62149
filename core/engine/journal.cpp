// The state row of journals that keep it as a value.
#include "core/engine/journal.hpp"

#include <utility>

namespace stoker::core {

void lay_over(StateRow& held, const StateRow& next) {
  std::map<RunName, std::string> runs = std::move(held.runs);
  for (const auto& [run, bytes] : next.runs)
    if (bytes.empty())
      runs.erase(run);
    else
      runs[run] = bytes;
  held = next;
  held.runs = std::move(runs);
}

}  // namespace stoker::core
