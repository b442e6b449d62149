// An agent that is not the lead: finds the generation of its claim, connects, both prove
// themselves, and it does what the lead says. When the lead is gone it says so in
// gen-*/agents/<node>.jsonl, tries to come back for a bound, then ends its ranks and leaves with an
// error.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "worker/agent/link/star.hpp"
#include "worker/agent/node/node.hpp"
#include "worker/agent/storage/claim.hpp"
#include "worker/agent/storage/event_log.hpp"

namespace stoker::agent {

// How long a lost lead may take to come back; then the follower ends its ranks and leaves.
inline constexpr Duration kLeadReturns = 10s;

class Follower {
 public:
  Follower(Loop& loop, const RunContext& context, Watchmen watchmen);
  ~Follower();

  void begin();
  void on_signal(int signal);
  void keeper_gone();
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  struct Found {  // by the thread that looks for the lead
    wire::Start start;
    os::Fd socket;
    SessionKeys keys;
  };
  void look_for_lead(Duration limit);
  void on_found(std::shared_ptr<Found> found);
  void on_frame(const Frame& frame);
  void on_lost(const std::string& why);
  void tick();
  void give_up(const std::string& why);
  void leave(int exit_code, const std::string& why);
  void try_leave();
  void report(NodeReport report);
  void merged(std::string_view line);
  void flush_lines();
  void make_node(const wire::Start& start);

  Loop& loop_;
  const RunContext& context_;
  Watchmen watchmen_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::optional<wire::Start> start_;
  std::unique_ptr<LogWriter> logs_;
  std::unique_ptr<EventLog> events_;  // only while the lead is gone
  std::unique_ptr<Node> node_;
  std::unique_ptr<Link> link_;
  std::string lines_;
  Loop::Timer lines_timer_ = 0, tick_timer_ = 0;
  bool leaving_ = false, said_goodbye_ = false;
  Instant leaving_since_{};
  int exit_code_ = 1;
  std::string why_;
};

}  // namespace stoker::agent
