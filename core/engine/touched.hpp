// Touched: the part of the state that the events of one turn can change, as it was before them: to
// take the turn back when the journal refuses it, and to know which runs it has changed. A turn of
// one run costs nothing for a thousand others.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "core/state.hpp"

namespace stoker::core {

class Touched {
 public:
  // `keep`: the turn may be taken back. Without it nothing is copied, and each run that its events
  // can change counts as changed.
  Touched(SiteState& state, bool keep);

  // Before the event is stepped.
  void reach(const Event& event);
  // Runs that are not as they were: also new ones, and those that have left.
  [[nodiscard]] std::set<RunName> changed() const;
  // Everything is as it was.
  void take_back();

 private:
  void note(const RunName& name);

  SiteState& state_;
  std::optional<SiteState> site_;                    // without its runs; none: nothing is kept
  std::map<RunName, std::optional<RunState>> runs_;  // none: there was no such run
  bool all_ = false;                                 // each run there was is in runs_
};

// What `function` makes of the state without its runs, which costs no copy of them.
template <class Function>
auto without_runs(SiteState& state, Function function) {
  struct Aside {
    explicit Aside(SiteState& of) : state(of) { runs.swap(state.runs); }
    ~Aside() { runs.swap(state.runs); }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    SiteState& state;
    std::map<RunName, RunState> runs;
  };
  const Aside aside(state);
  return function(std::as_const(state));
}

}  // namespace stoker::core
