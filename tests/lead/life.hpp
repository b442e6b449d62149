// One random life of a lead: agents, processes and files as physics, everything decided by
// lead::step. From one seed, in virtual time. What must never happen is checked against what only
// the physics knows: which processes are alive, what is durable.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lead/step.hpp"
#include "sim/universe/random.hpp"
#include "sim/universe/timeline.hpp"

namespace stoker::lead_test {

// A rule of the lead that a life takes out, to show that its absence is noticed.
enum class Guard {
  None,
  StaleAttempt,  // reports of an older attempt count for the newest one
  AllClear,      // one node's proof is enough
  LostGrace,     // a lost agent's processes count as gone at once
  MarkFirst,     // the end is reported before its mark is durable
  OneAttempt,    // ranks may start while others run
  SnapshotLine,  // a snapshot counts though a later attempt began in front of it
  SnapshotWhole  // or though a node has not all of it
};

class Life {
 public:
  Life(std::uint64_t seed, Guard broken);
  // The first thing that must never happen, with its moment; "" = none.
  std::string live();
  [[nodiscard]] std::uint32_t attempts() const { return state_.attempt.value; }
  [[nodiscard]] std::uint64_t from_memory() const { return from_memory_; }
  [[nodiscard]] const std::set<std::string>& stages() const { return stages_; }

 private:
  struct Node {
    lead::Link link;
    bool agent = true;              // its process
    bool silent = false;            // cut off: frames wait
    std::map<Rank, Attempt> ranks;  // processes that are alive
    Attempt attempt;                // newest it was given
    std::deque<wire::NodeReport> held;
    std::deque<std::function<void()>> orders;  // that wait for the connection
    std::uint64_t stops = 0;                   // plans of before are void
    std::deque<wire::HeldSnapshot> memory;
  };

  void feed(lead::EventBody body);
  void perform(const lead::Action& action);
  void command(const NodeName& name, const wire::NodeCommand& command);
  void start(const lead::StartAttempt& action);
  static void start_ranks(Node& node, const wire::StartRanks& order);
  void end_ranks(const NodeName& name, Duration wait, wire::RankExited how);
  void say(const NodeName& name, wire::NodeReport report);
  void deliver(const NodeName& name, wire::NodeReport report);
  void kill_node(const NodeName& name);
  void cut_off(const NodeName& name);
  void wake();
  // life_memory.cpp
  [[nodiscard]] std::uint64_t seconds() const;
  void plan_snapshot(const lead::StartAttempt& action);
  void hold(const NodeName& name, std::size_t place, wire::HeldSnapshot made,
            const lead::StartAttempt& action);
  void list_snapshots(const NodeName& name);
  void note_start(const wire::AttemptStarted& started);
  void check_memory(const lead::StartAttempt& action);
  void plan_mishap();
  void mishap();
  void write_control();
  void break_guard();
  void wrong(const std::string& what);
  [[nodiscard]] lead::Tick look() const;
  [[nodiscard]] NodeName any();
  [[nodiscard]] Duration soon(Duration most);
  void after(Duration wait, std::function<void()> what) { time_.after(wait, std::move(what)); }

  Guard broken_;
  sim::Random random_;
  sim::Timeline time_;
  lead::State state_;
  std::map<NodeName, Node> nodes_;
  std::vector<std::pair<NodeName, wire::NodeReport>> past_;  // that may turn up again
  std::map<Attempt, Iteration> began_;
  std::uint64_t from_memory_ = 0;
  wire::Control control_;
  std::deque<lead::EventBody> waiting_;
  std::set<std::string> stages_;
  std::optional<Instant> woken_;
  bool durable_ = false, healed_ = false, left_ = false, stepping_ = false;
  std::string wrong_;
};

}  // namespace stoker::lead_test
