// Turns: the engine and its journal on their own thread, fed from the loop. While one turn is being
// journalled the next inputs gather; each turn is one transaction. When the journal cannot write
// nothing happens, the trouble is reported, and the same inputs are tried again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "core/engine/engine.hpp"
#include "core/state.hpp"
#include "daemon/journal/sqlite_journal.hpp"
#include "daemon/loop/poison.hpp"
#include "daemon/loop/worker.hpp"
#include "watch/follow_ends.hpp"

namespace stoker::daemon {

// What the loop needs to know of a run after each turn.
struct RunBrief {
  core::RunPolicy policy;
  std::string state;      // name of the training state
  bool active = false;    // has, or wants, jobs: the scheduler is asked often
  bool retired = false;   // finished, stopped or held, no job of it is alive, nothing follows
  bool unread = false;    // its directory does not answer, as was reported
  Generation generation;  // of the live one; 0 = none
  std::string sign;       // that its job is ending (core/recover/end.hpp); "" = none
  std::vector<core::JobExpected> expected;  // in the queue
  std::vector<watch::Follow> follows;       // jobs of followers
  bool operator==(const RunBrief&) const = default;
};

// By name. What a turn did not change is the very brief of the turn before.
using RunBriefs = std::map<RunName, std::shared_ptr<const RunBrief>>;

struct TurnReport {
  std::vector<core::JournalRow> rows;
  RunBriefs runs;
  std::optional<Instant> wake_at;
};

class Turns {
 public:
  struct Parts {
    core::Engine& engine;
    SqliteJournal& journal;
    PoisonGuard& poison;
  };
  struct Hooks {
    std::function<void(TurnReport)> turn;  // after each turn; on the loop
    // The journal does not write ("" = it does again); on the loop, when it changes.
    std::function<void(const std::string&)> trouble;
  };
  // Called on the loop once its input is in the journal, with that turn's rows.
  using Done = std::function<void(const std::vector<core::JournalRow>&)>;

  Turns(boost::asio::io_context& io, Parts parts, Hooks hooks);
  ~Turns();

  // Any thread.
  void submit(std::vector<core::Input> inputs, Done done = {});
  // DaemonStarted and what was left open; tried again like every turn.
  void start(const core::DaemonStarted& started);
  // Runs a job on the engine's thread.
  void inspect(std::function<void(core::Engine&, SqliteJournal&)> job);
  void stop();

  [[nodiscard]] bool idle() const { return !in_flight_ && waiting_.empty(); }
  [[nodiscard]] Duration busy_for() const { return worker_.busy_for(); }

 private:
  struct Batch {
    std::vector<core::Input> inputs;
    std::optional<core::DaemonStarted> start;
    std::vector<Done> done;
  };
  struct Outcome {
    TurnReport report;
    std::vector<core::Input> left;  // not journalled
    bool started = true;
    std::optional<Error> error;
  };
  void pump();
  Outcome step(Batch& batch);  // engine thread
  Status step_one(core::Input& input, TurnReport& report);
  Status feed(std::vector<core::Input> inputs, TurnReport& report);
  void refresh_briefs(const std::vector<core::JournalRow>& rows);
  void finished(Batch batch, Outcome outcome);  // loop

  boost::asio::io_context& io_;
  Parts parts_;
  Hooks hooks_;
  boost::asio::steady_timer retry_;
  std::vector<core::Input> waiting_;
  std::vector<Done> waiting_done_;
  std::optional<core::DaemonStarted> start_;
  bool in_flight_ = false, stopped_ = false;
  std::string trouble_;
  RunBriefs briefs_;  // of the engine's thread
  Worker worker_;
};

}  // namespace stoker::daemon
