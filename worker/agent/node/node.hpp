// One node's part of the work: its ranks under their guardians, their output, pages and samples,
// the stop ladder, warm standbys, the port of an attempt. It performs commands of the lead and
// reports what happens; the lead's own node is the same class, called directly.
//
// Invariants: at most one attempt has processes; a new one is refused until every process of the
// older one is proven gone.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/agent/link/protocol.hpp"
#include "worker/agent/loop.hpp"
#include "worker/agent/node/memory.hpp"
#include "worker/agent/rank/rank_environment.hpp"
#include "worker/agent/rank/rank_process.hpp"
#include "worker/agent/rank/rank_slot.hpp"
#include "worker/agent/run_context.hpp"
#include "worker/agent/storage/checkpoint_watch.hpp"
#include "worker/agent/storage/log_writer.hpp"

namespace stoker::agent {

struct NodeWiring {
  Loop& loop;
  const RunContext& context;
  Watchmen watchmen;
  LogWriter& logs;
  std::function<void(NodeReport)> report;
  std::function<void(std::string_view line)> merged;  // to main.log, wherever the lead is
};

class Node {
 public:
  Node(NodeWiring wiring, wire::Start start);
  ~Node();

  void perform(const NodeCommand& command);
  void kill_all();                   // ranks and standbys, at once
  [[nodiscard]] bool clear() const;  // no process is left, standbys included
  void report_again();  // to a lead that we have lost and found: exits and clear of this attempt

 private:
  struct Member {  // a rank of the running attempt
    std::unique_ptr<RankSlot> slot;
    std::unique_ptr<RankProcess> process;
    std::uint32_t local = 0;
    std::string page_path;
    bool gone = false, clear = false;
  };

  // node.cpp
  void sample();
  void send_beat(Instant now);
  void choose_port(const ChoosePort& command);
  void start(const StartRanks& command);
  Status start_member(Member& member, const StartRanks& command);
  Status start_process(Member& member, const StartRanks& command);
  void start_waiting();
  void report_short(const std::string& what);
  void drop_waiting();
  std::unique_ptr<RankSlot> make_slot(const StartRanks& command, std::uint32_t local);
  void watch_checkpoints(const StartRanks& command);
  void list_snapshots();
  [[nodiscard]] std::string slots_of(std::uint32_t local);  // "" = the rank gets none
  RankProcess::Events member_events(Member& member);
  void on_exit(Member& member, const os::ExitStatus& status);
  void on_clear();
  void notice(std::string text);
  void watch_health();
  void make_far_logs();
  [[nodiscard]] std::string rank_log(const Rank& rank);  // path of its raw output; "" = not kept

  // node_stop.cpp
  void stop(const StopRanks& command);
  void ask_to_leave(wire::Leave how);
  void terminate_all();
  void kill_ranks();
  void save(const SaveNow& command);
  bool send_save_signal(Member& member);
  void take_stacks(const TakeStacks& command);
  void bench(const BenchNode& command);

  // node_standby.cpp
  void tend_standbys();
  void spawn_standby();
  std::unique_ptr<RankProcess> take_standby();
  [[nodiscard]] bool wants_standbys() const;
  // The command of a Python training's standby; empty: train.preload names none, or not its kind.
  [[nodiscard]] std::optional<std::vector<std::string>> preloads() const;
  [[nodiscard]] std::string standby_path(std::string_view ending) const;  // ".log", ".py"
  Status write_python_standby();
  void learn_from(RankPlan& plan);  // the rank writes down what its script imports
  const std::string& learned_list();

  NodeWiring wiring_;
  wire::Start start_;
  std::string generation_directory_;
  diagnose::ProgressReader progress_;
  Environment base_;
  Attempt attempt_;
  std::vector<std::unique_ptr<Member>> ranks_;
  std::vector<RankGone> exits_;  // of this attempt, for report_again()
  std::string stuck_;
  bool leaving_ = false;  // the ranks were ordered to exit: their exits are expected
  os::Fd held_port_, port_lock_;
  std::optional<std::string> far_logs_;  // folder of logs that stay on this node; "" = cannot be
  std::unique_ptr<CheckpointWatch> checkpoint_watch_;
  NodeMemory memory_;
  bool memory_failed_ = false;  // reported once
  std::vector<std::unique_ptr<RankProcess>> standbys_;
  std::uint32_t standby_failures_ = 0;
  std::optional<std::string> learned_list_;  // path; "" = none, or it cannot be made
  Instant created_, started_{}, beat_at_{};
  Loop::Timer sample_timer_ = 0, term_timer_ = 0, kill_timer_ = 0;
  std::optional<StartRanks> waiting_;  // ranks that the machine had no process for yet
  Loop::Timer waiting_timer_ = 0;
  std::optional<Instant> short_told_;
  std::shared_ptr<std::atomic<bool>> health_stop_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<double>> gpu_watts_;              // null until NVML was looked for
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for threads that post back
};

// A TCP port free on this host, bound (held) and locked host-wide among agents: of the range, or
// any other when all of the range are taken; see node_port.cpp.
struct HeldPort {
  std::uint32_t port = 0;
  os::Fd socket, lock;
};
Result<HeldPort> hold_free_port(std::uint16_t first = 20000, std::uint16_t count = 12000);

}  // namespace stoker::agent
