// Worst first: alerts, then what waits for an operator, then what stoker works on.
#include "cli/top/run_order.hpp"

#include <algorithm>
#include <map>

namespace stoker::cli::top {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

int badness_of_state(const std::string& state) {
  static const std::map<std::string, int, std::less<>> known = {
      {"held", 80},     {"suspect", 70},  {"recovering", 60}, {"stopping", 40}, {"queued", 35},
      {"starting", 30}, {"training", 20}, {"idle", 15},       {"stopped", 10},  {"finished", 0}};
  const auto found = known.find(state);
  return found == known.end() ? 75 : found->second;
}

bool fits(const wire::StatusDocument& run, std::string_view filter) {
  const auto& conditions = run.conditions;
  return contains(run.run, filter) || contains(run.state, filter) || contains(run.reason, filter) ||
         std::any_of(conditions.begin(), conditions.end(),
                     [&](const std::string& c) { return contains(c, filter); });
}

}  // namespace

int badness(const wire::StatusDocument& status) {
  int worst = badness_of_state(status.state);
  for (const wire::StatusAlert& alert : status.alerts)
    if (!alert.acknowledged) worst = std::max(worst, alert.severity == "critical" ? 100 : 50);
  if (status.state == "training" &&
      (!status.conditions.empty() || (status.slow && status.slow->now)))
    worst = std::max(worst, 45);
  return worst;
}

std::vector<const wire::StatusDocument*> ordered(const View& view, std::string_view filter) {
  std::vector<const wire::StatusDocument*> runs;
  for (const wire::StatusDocument& run : view.runs)
    if (fits(run, filter)) runs.push_back(&run);
  std::sort(runs.begin(), runs.end(),
            [](const wire::StatusDocument* a, const wire::StatusDocument* b) {
              const int bad_a = badness(*a), bad_b = badness(*b);
              return bad_a != bad_b ? bad_a > bad_b : a->run < b->run;
            });
  return runs;
}

bool contains(std::string_view text, std::string_view filter) {
  return std::search(text.begin(), text.end(), filter.begin(), filter.end(),
                     [](char a, char b) { return lower(a) == lower(b); }) != text.end() ||
         filter.empty();
}

const wire::StatusDocument* run_named(const View& view, std::string_view name) {
  for (const wire::StatusDocument& run : view.runs)
    if (run.run == name) return &run;
  return nullptr;
}

}  // namespace stoker::cli::top
