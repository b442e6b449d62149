// A run is copied when the first event of a turn can reach it.
#include "core/engine/touched.hpp"

#include "core/step.hpp"

namespace stoker::core {

Touched::Touched(SiteState& state, bool keep) : state_(state) {
  if (keep) site_ = without_runs(state, [](const SiteState& site) { return site; });
}

void Touched::note(const RunName& name) {
  const auto [kept, fresh] = runs_.try_emplace(name);
  if (!fresh || !site_ || all_) return;  // all_: it came into being in this turn
  if (const auto run = state_.runs.find(name); run != state_.runs.end()) kept->second = run->second;
}

void Touched::reach(const Event& event) {
  if (keeps_to_its_run(event)) return note(event.run);
  for (const auto& [name, run] : state_.runs) note(name);
  all_ = true;
}

std::set<RunName> Touched::changed() const {
  std::set<RunName> changed;
  for (const auto& [name, before] : runs_) {
    const auto run = state_.runs.find(name);
    const bool there = run != state_.runs.end();
    const bool same = site_ && there && before && run->second == *before;
    if (!same && (there || before || !site_)) changed.insert(name);
  }
  if (all_)
    for (const auto& [name, run] : state_.runs)
      if (!runs_.contains(name)) changed.insert(name);
  return changed;
}

void Touched::take_back() {
  std::map<RunName, RunState> runs = std::move(state_.runs);
  if (all_) std::erase_if(runs, [&](const auto& run) { return !runs_.contains(run.first); });
  for (auto& [name, before] : runs_)
    if (before)
      runs.insert_or_assign(name, *std::move(before));
    else
      runs.erase(name);
  state_ = *std::move(site_);
  state_.runs = std::move(runs);
}

}  // namespace stoker::core
