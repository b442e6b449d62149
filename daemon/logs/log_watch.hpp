// LogWatch: the logs of one run as they grow, explained by diagnose/ and reported to the decider
// when the explanation changes: the newest generation's main.log, what watch.logs and
// watch.kernel_logs name, and the last lines of ranks that end. Each verdict carries the cursors of
// all logs, so a daemon that comes back goes on there; between attempts it forgets. Belongs to the
// mount's thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/engine/engine.hpp"
#include "daemon/logs/log_choice.hpp"
#include "daemon/logs/log_knowledge.hpp"
#include "daemon/logs/script_progress.hpp"
#include "diagnose/match/live_scan.hpp"
#include "watch/part.hpp"
#include "watch/tail.hpp"

namespace stoker::daemon {

class LogWatch {
 public:
  // `cursors`: all that the journal has; those of this run's logs are taken.
  LogWatch(const core::RunPolicy& policy, bool network, const std::vector<core::Cursor>& cursors,
           LogKnowledge& knowledge);

  // Reads what the logs have gained. `inputs`: what else was seen of the run at this poll; verdicts
  // are put in before the failures that they explain.
  void poll(Instant now, std::vector<core::Input>& inputs, const watch::Gate& gate = {});
  // Of a run without agents: the generation whose job runs (0 = none), and its progress for a Tick
  // that wants to judge ages.
  void set_generation(Generation live, Instant now);
  void flush(Instant now, std::vector<core::Input>& out, const watch::Gate& gate = {}) {
    tell_progress(now, true, out, gate);
  }
  [[nodiscard]] bool more() const { return more_; }  // there is more to read at once
  // How often the logs reported a fatal error and then stopped growing: for 3 s, and twice as long
  // each time again in the same attempt.
  [[nodiscard]] std::size_t silences() const { return silences_; }

 private:
  struct Place {  // the parser_state of a cursor
    Generation generation;
    Attempt attempt;
    std::uint64_t offset = 0, line = 0;  // where the log stood when the attempt began
    std::string reported;                // the verdict of LiveScan::reported()
    STOKER_FIELDS(Place, generation, attempt, offset, line, reported)
  };
  struct Log {
    watch::LineTail tail;
    diagnose::LiveSource source;
    std::uint64_t offset = 0, line = 0;  // as in Place
    bool told_error = false;
  };
  // Who makes ever more logs, or links that are refused, makes no events without end: beyond a
  // number they are counted, and the count is reported when it has doubled.
  struct Tally {
    std::size_t all = 0, counted = 0;
    bool doubled() {
      const bool news = all >= 2 * counted;
      if (news) counted = all;
      return news;
    }
  };
  bool take_up(std::vector<core::Input>& out);
  void find_logs(std::vector<core::Input>& out, const watch::Gate& gate);
  void find_named(const std::string& main, std::vector<core::Input>& out);
  void leave_others(const LogChoice& choice, const std::string& main);
  void tell_followed(const std::vector<std::string>& paths, std::vector<core::Input>& out);
  void tell_error(const std::string& path, const std::string& what, std::vector<core::Input>& out);
  void tell_left_out(const LogChoice& choice, std::vector<core::Input>& out);
  void follow(const std::string& path, diagnose::LiveSource source, bool from_end);
  void scan_again(const std::string& path, const core::Cursor& cursor, const Place& place,
                  const diagnose::LiveSource& source);
  void read_logs(Instant now, std::vector<core::Input>& out, const watch::Gate& gate);
  std::size_t read(Log& log, Instant now, std::vector<core::Input>& out);
  void heed_silence(Instant now);
  void last_words(const wire::RankExited& exited);
  void begin_attempt(Attempt attempt);
  void tell(std::vector<core::Input>& out);
  void tell_progress(Instant now, bool at_once, std::vector<core::Input>& out,
                     const watch::Gate& gate);
  void note(const std::string& path, const std::string& detail, std::vector<core::Input>& out);
  [[nodiscard]] core::Cursor cursor_of(const std::string& path, const Log& log) const;

  core::RunPolicy policy_;
  bool network_;
  LogKnowledge& knowledge_;
  std::map<std::string, core::Cursor> cursors_;  // as the journal had them, by path of the log
  bool known_ = false;  // the logs that were there at first have been reported
  std::unique_ptr<diagnose::LiveScan> scan_;
  std::optional<ScriptProgress> script_;  // of a run without agents
  std::vector<std::string> nodes_;        // of the allocation
  Generation generation_;
  Attempt attempt_;  // 0: not known
  std::map<std::string, Log> logs_;
  LogRoom room_;
  Tally errors_;              // logs that cannot be read
  std::string next_;          // of logs_: with which the next poll begins
  std::size_t left_out_ = 0;  // as it was reported
  Tally followed_;
  std::set<std::string> too_wide_;  // patterns that were reported
  std::optional<Instant> looked_;
  bool more_ = false;
  bool failed_ = false;          // the newest verdict is a fatal one
  std::optional<Instant> grew_;  // a log, when last; empty: that silence was counted
  Duration silence_ = 3s;        // that counts next
  std::size_t silences_ = 0;
};

}  // namespace stoker::daemon
