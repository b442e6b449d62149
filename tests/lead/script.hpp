// The language of tests/lead/*.txt: one lead in virtual time. Each line is an event; the indented
// lines below it are what the lead did. See tests/lead/README.md for the words.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "lead/step.hpp"
#include "sim/transcript/words.hpp"

namespace stoker::lead_test {

std::string describe(const lead::Action& action);

class Script {
 public:
  // Runs one line; the answer is a text of lines. Error: a word that means nothing.
  Result<std::string> run(std::string_view line);
  [[nodiscard]] const lead::State& state() const { return state_; }

 private:
  void make(sim::Words& words);
  Status happen(sim::Words& words);
  Status happen_to_lead(const std::string& verb, sim::Words& words);
  Status advance_to(Instant at);
  void feed(lead::EventBody body);
  void note(const lead::Action& action);
  void control(sim::Words& words);
  void beat(sim::Words& words);
  void rank(sim::Words& words);
  void held(sim::Words& words);
  void say(NodeName node, wire::NodeReport report);
  [[nodiscard]] lead::Tick look() const;
  [[nodiscard]] lead::Tick look_as_left() const;
  [[nodiscard]] lead::EndLooked looked() const;
  [[nodiscard]] Attempt attempt(sim::Words& words) const;

  lead::State state_;
  Instant now_{};
  std::map<NodeName, lead::Link> links_;
  std::set<NodeName> silent_, busy_;
  std::string out_;
  std::optional<wire::EndMark> mark_;  // that is to be written
  std::string kill_switch_;            // by whom; "" = it is not there
  bool finish_file_ = false, slow_looks_ = false, flooded_ = false, linger_ = false,
       archived_ = true, ticking_ = false;
};

// The file with its answers as they are now.
Result<std::string> rerun(std::string_view file, const std::string& name);

}  // namespace stoker::lead_test
