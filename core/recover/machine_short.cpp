// A node has no port, process or thread left to give. The agents try again; the run keeps its job.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/recover/recover.hpp"

namespace stoker::core {
namespace {

constexpr Duration kLongest = 10min;  // between two reports

}  // namespace

// A restart inside that waits for it is not given up meanwhile. While the ranks train nothing of
// them waits: a line is enough, and no later event would resolve an alert.
void on_machine_short(Turn& turn, const wire::MachineShort& e) {
  turn.say(fmt::format("{}: {}; its agent tries again until it can", e.node.text, e.what));
  if (turn.in<training::Training>() != nullptr) return;
  raise(turn,
        {Severity::Warning, "machine_short",
         fmt::format("{} cannot start its ranks: {} on {}; its agent tries again until it can",
                     turn.name().text, e.what, e.node.text),
         fmt::format("ssh {} 'ps -eLf | wc -l; ss -tuan | wc -l'", e.node.text), e.node.text});
  await_restart(turn.r(), turn.now() + std::clamp<Duration>(e.at_most, 0s, kLongest));
}

}  // namespace stoker::core
