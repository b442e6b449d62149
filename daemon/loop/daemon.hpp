// Daemon: the one event loop that joins the engine with the world. The loop thread only passes
// things on: the engine journals on its thread (turns.hpp), effects run in lanes (effect_pool.hpp),
// watchers and publishers live on their mount's thread, schedulers are asked on theirs. Nothing is
// done that is not in the journal.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "core/operators/forget.hpp"
#include "daemon/http/http_server.hpp"
#include "daemon/http/site_view.hpp"
#include "daemon/http/tls.hpp"
#include "daemon/loop/effect_pool.hpp"
#include "daemon/loop/errands.hpp"
#include "daemon/loop/foundation.hpp"
#include "daemon/loop/mount_thread.hpp"
#include "daemon/loop/scheduler_observer.hpp"
#include "daemon/loop/sd_notify.hpp"
#include "daemon/loop/turns.hpp"
#include "daemon/ports/alert_port.hpp"
#include "daemon/socket/byte_pace.hpp"
#include "daemon/socket/line_server.hpp"
#include "daemon/socket/peer_rights.hpp"
#include "daemon/state/roomy_log.hpp"
#include "watch/daily_budget.hpp"
#include "wire/socket.hpp"

namespace stoker::daemon {

struct DaemonOptions {
  std::string state_directory;
  std::string program;        // path of stokerd: the embedded scheduler is started with it
  std::string listen;         // "" = <state>/web.sock, "none" = no web door
  bool insecure = false;      // it may be open beyond loopback, without TLS
  TlsFiles tls;               // its certificate, "" = clear text
  bool once = false;          // one pass and out
  Duration slurm_pace = 15s;  // shortest time between two looks at SLURM's queue
  std::string run_file;       // a RUN.yaml to take under supervision at start, "" = none
  int run_text = -1;          // its text, already confirmed, is read from here; -1 = from run_file
  bool until_end = false;     // with run_file: until that run is finished, held or stopped
};

enum class DaemonExit : int {
  Done = 0,
  Failed = 1,
  NeedsPerson = 2,
  Held = 3,
  Stopped = 4,
  Usage = 64  // the file of --run has errors
};

// All that ever changed which run a row belongs to.
struct NameHistory {
  std::vector<core::NameChange> changes;
  Sequence upto;
  Status read_on(SqliteJournal& journal);
};

class Daemon {
 public:
  static Result<std::unique_ptr<Daemon>> open(const DaemonOptions& options);
  ~Daemon();
  // Turns the loop until a signal, the end of the pass or of the run. Returns the exit status.
  DaemonExit run();
  void stop();  // after run(): waits for its threads, but for those that do not come back

 private:
  struct WatchedRun {
    std::shared_ptr<const RunBrief> brief;  // what was known of it when it was taken up last
    core::RunPolicy policy;
    std::string real_directory;  // without links, where that could be asked for
    std::string state;
    bool retired = false;
    Generation generation;
    MountThread* mount = nullptr;
    std::shared_ptr<RunPublisher> publisher;  // of the mount's thread
    std::shared_ptr<bool> caught_up;          // likewise: rows may be appended as they come
    bool dropped = false;                     // the watcher is being replaced
    bool unread = false;                      // its own files do not answer, which was reported
    Duration patience{};                      // with them
    bool apart = false;                       // a part did not answer once: a mount of its own
    bool moving = false;                      // there, behind what the old mount still does
    std::string sign;                         // that its job is ending, as last seen
    std::size_t silences = 0;                 // of its logs after an error, likewise
    Instant written_at;                       // its status.json
  };
  using Reply = std::function<void(wire::Response)>;

  Daemon(DaemonOptions options, Foundation foundation);
  // daemon.cpp: start, end, timers.
  Status begin();
  void beat();
  void renew_lease();
  void keep_socket();
  void repeat_alerts();
  void note_weeks();
  void make_digest(const wire::Request& request, const std::string& by, Reply reply);
  void arm_wake(std::optional<Instant> at);
  void wake();
  void on_signal(int signal);
  void end(DaemonExit exit);
  void finish_if_quiet();
  void check_end();
  core::PerformContext context_of(const core::Intent& intent);

  // daemon_watch.cpp: what a turn means for watchers, observers and publishers.
  void on_turn(TurnReport report);
  void on_trouble(const std::string& trouble);
  bool take_up(const std::shared_ptr<const RunBrief>& of);
  void change(WatchedRun& run, const core::RunPolicy& policy);
  void start_watcher(const RunName& name);
  void start_watchers();
  void share_socket();
  void share_pages();
  void observe(const RunBriefs& runs);
  MountThread& mount_at(const std::string& place);
  void find_mount(WatchedRun& run);
  void heed_silent_logs();

  // daemon_stuck.cpp: parts of runs that do not answer.
  void pass_over_stuck_parts();
  void take_up_answering_parts();
  void publish_again(const RunPart& part);
  void report_passed_over(const RunPart& part, Duration lasts, bool silent);
  void tell_unread_runs();
  void take_up_part(const RunPart& part, WatchedRun& run);

  // daemon_leave.cpp: runs that were forgotten or have another name.
  bool drop_missing(const RunBriefs& runs);
  void drop(const RunName& name, WatchedRun& run, bool forgotten);
  void tell_forgotten(const std::string& run, Reply reply);

  // daemon_publish.cpp
  void publish_rows(const std::vector<core::JournalRow>& rows);
  void catch_up(const RunName& name, WatchedRun& run);
  enum class Scope { Changed, All };
  void render(Scope scope);
  void take_view(std::shared_ptr<SiteView> view);
  void write_view(const SiteView& view);
  void note_pass();

  // daemon_web.cpp: the page and its documents.
  Status open_web_door();
  Status listen_for_web(const std::string& token);
  void try_web_again();
  void on_web_request(const WebRequest& request, const HttpServer::Reply& reply);
  void show_log(const std::string& run, const WebRequest& request, const HttpServer::Reply& reply);

  // daemon_requests.cpp: the control socket's verbs.
  void on_request(const Peer& peer, std::string line, LineServer::Answer answer);
  void ask_operator(const wire::Request& request, const std::string& by, Reply reply);
  void look_up_nodes(const wire::Request& request, const std::string& by, Reply reply);
  void ask_run(const wire::Request& request, const std::string& by, Duration patience, Reply reply);
  struct Pending;
  void put_under_supervision(core::RunPolicy policy, const std::string& by, bool dry_run,
                             std::shared_ptr<Pending> pending);
  void make_folders(const core::RunAdded& added, bool fresh, std::shared_ptr<Pending> pending,
                    std::function<void(const core::RunAdded&)> made);
  void ask_run_file(const std::string& path);  // --run
  void test_alerts(const wire::Request& request, Reply reply);
  std::optional<std::string> why_refused(const Peer& peer, const wire::Request& request);
  std::optional<std::string> why_not_today(const Peer& peer, const wire::Request& request);
  void ask_again_later(const Reply& reply);

  // daemon_reload.cpp
  void reload(const std::string& by, Reply reply);
  void reload_runs(const std::string& by, const std::set<RunName>& refused, Reply reply);
  struct Reloading;
  void wait_for_next(const std::shared_ptr<Reloading>& all);
  void take_reloaded(const std::shared_ptr<Reloading>& all);

  DaemonOptions options_;
  Foundation foundation_;
  const RoomyLog pulse_{foundation_.state_directory + "/pulse.log"};  // of the site's mount thread
  boost::asio::io_context io_;
  boost::asio::steady_timer beat_timer_{io_}, wake_timer_{io_};
  boost::asio::signal_set signals_{io_};
  SystemdNotifier notifier_;

  OsFiles files_;
  OsProcesses processes_;
  std::unique_ptr<SchedulerRouter> scheduler_;
  std::unique_ptr<AlertPort> alerts_;
  std::unique_ptr<EffectPool> effects_;
  std::unique_ptr<core::Engine> engine_;
  std::unique_ptr<Turns> turns_;
  Errands errands_, rereads_;  // of requests; of RUN.yaml, which may be as many as there are runs
  // By os::mount_point_of(); "site": what belongs to no run; "run NAME": of a run that is apart.
  std::map<std::string, std::unique_ptr<MountThread>> mounts_;
  std::map<std::string, Instant> silent_places_;  // mount points that gave no answer, and when
  std::map<RunPart, MountThread*> passed_over_;   // what was reported as such
  CommonSight sight_{
      [this](std::vector<core::Input> inputs) { turns_->submit(std::move(inputs)); }};
  std::map<core::SchedulerPlace, std::unique_ptr<SchedulerObserver>> observers_;
  std::map<RunName, WatchedRun> runs_;
  std::vector<RunName> to_watch_;               // runs whose watchers start when cursors are read
  std::set<RunName> changed_;                   // runs with rows that the view does not show yet
  WatchedRun site_;                             // <state>/published
  std::map<RunName, core::RunPolicy> leaving_;  // of forgotten runs; of the engine's thread
  NameHistory names_;                           // likewise
  std::unique_ptr<LineServer> socket_;
  std::optional<std::string> socket_group_;  // who else may knock; "": no one. Empty: not set yet
  std::string socket_news_;                  // what was said about it
  std::unique_ptr<HttpServer> http_;
  struct ListenAgain {
    Instant at;
    std::string token;
  };
  std::optional<ListenAgain> listen_again_;  // while another user has the page's port or path
  PeerRights rights_;
  BytePace bytes_;
  watch::DailyBudget day_;  // of orders by the socket
  std::shared_ptr<SiteView> view_ = std::make_shared<SiteView>();

  Instant started_at_ = monotonic_now(), end_at_;
  bool started_ = false, dirty_ = false, rendering_ = false, waking_ = false, ending_ = false,
       goodbye_ = false;
  std::uint64_t beats_ = 0, rows_ = 0;
  std::string trouble_;
  RunName awaited_;                     // --until-end
  std::optional<Instant> sends_since_;  // only the outbox is left
  std::optional<Instant> quiet_since_;
  DaemonExit exit_ = DaemonExit::Done;
};

// <run directory>/{orders,claims,switch,checkpoints}; with a group readable for it, and switch/
// writable.
Status make_run_directory(const core::RunPolicy& policy);
// Whether no other run has this directory, by another path either; `others` without their links.
Status check_alone(const std::string& directory, const std::map<RunName, std::string>& others);
std::string shared_directory(const std::string& directory, const RunName& other);  // the refusal
// No other user can put orders there (wire/run_directory.hpp), nor lead the way there or to the
// checkpoints elsewhere; what had to be changed is logged.
Status close_run_directory(const core::RunPolicy& policy);

}  // namespace stoker::daemon
