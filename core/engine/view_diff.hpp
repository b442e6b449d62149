// ViewDiff: the difference between two answers of a scheduler, and blindness. Pure. Absence from an
// answer proves nothing; a few failed answers in a row are reported once.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/engine.hpp"
#include "core/engine/ports.hpp"

namespace stoker::core {

class ViewDiff {
 public:
  explicit ViewDiff(int failures_until_blind) : limit_(failures_until_blind) {}
  // `run_of` names the run of a token of ours ("" = of none that we know).
  std::vector<Input> good(const SchedulerView& view,
                          const std::function<RunName(const Token&)>& run_of);
  std::vector<Input> failed(const std::string& why);
  [[nodiscard]] int failures() const { return failures_; }

 private:
  int limit_;
  int failures_ = 0;
  bool blind_ = false;
  std::map<std::pair<Token, JobId>, JobSeen> jobs_;
  std::map<NodeName, NodeSeen> nodes_;
  std::optional<CalendarSeen> calendar_;
  std::map<RunName, std::vector<std::string>> rivals_;
};

}  // namespace stoker::core
