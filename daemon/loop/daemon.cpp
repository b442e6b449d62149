// Daemon: life from the foundation to the goodbye, and its timers.
#include "daemon/loop/daemon.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>

#include <boost/asio/post.hpp>

#include "common/os/mount_point.hpp"
#include "common/os/own_files.hpp"
#include "common/os/random.hpp"
#include "common/os/self.hpp"
#include "common/os/writers.hpp"
#include "configs/schema/yaml_tree.hpp"
#include "core/alerts/alerting.hpp"
#include "core/operators/silences.hpp"
#include "daemon/loop/log.hpp"
#include "embedded/local_scheduler.hpp"
#include "slurm/rest/http_door.hpp"
#include "slurm/slurm_scheduler.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kEffectThreads = 3;
constexpr Duration kBeat = 1s;
constexpr Duration kFlushLimit = 1s;      // a Tick waits this long for the digests
constexpr Duration kShortestTick = 50ms;  // between two ticks
constexpr Duration kOnceLimit = 90s;
constexpr Duration kOnceQuiet = 500ms;
constexpr Duration kOnceAlerts = 15s;  // for what waits in the outbox
constexpr Duration kGoodbyeLimit = 5s;
constexpr Duration kEngineStuck = 60s;
constexpr const char* kSocketName = "stokerd.sock";
constexpr gid_t kNoGroup = static_cast<gid_t>(-1);
constexpr const char* kBuild = "stoker " STOKER_VERSION;

std::unique_ptr<SchedulerRouter> make_schedulers(const DaemonOptions& options,
                                                 const std::string& state,
                                                 core::Processes& processes, core::Files& files) {
  const auto environment = os::current_environment();
  const auto user = environment.find("USER");
  slurm::SlurmOptions slurm;
  slurm.user = PeerRights().name_of(::geteuid());
  if (slurm.user.empty() && user != environment.end()) slurm.user = user->second;
  slurm.is_member = is_in_group;
  slurm.row_mark = [] { return os::random_hex(16) + "\x1f"; };
  slurm.members = group_members;
  slurm.environment = environment;
  slurm.cluster_file = state + "/slurm-cluster";
  if (options.slurm_pace < 15s) slurm.question_every = Duration{};  // a cluster of one's own
  return std::make_unique<SchedulerRouter>(
      std::make_unique<embedded::LocalScheduler>(embedded::local_options(state, options.program)),
      [slurm, &processes, &files](const core::SchedulerPlace& place) {
        slurm::SlurmOptions here = slurm;
        here.cluster = place.cluster;
        if (const core::RestAccess& rest = place.rest; !rest.url.empty())
          here.rest = std::make_shared<slurm::HttpDoor>(rest, slurm.user);
        return std::make_unique<slurm::SlurmScheduler>(processes, files, here);
      });
}

// A job obeys what lies in the run directory: while others can write there, none is started.
std::optional<core::EventBody> why_unsafe(const core::Intent& intent,
                                          const core::PerformContext& context) {
  if (!std::holds_alternative<core::WriteOrders>(intent.action) &&
      !std::holds_alternative<core::Submit>(intent.action) &&
      !std::holds_alternative<core::RunFollower>(intent.action))
    return std::nullopt;
  const Status closed = close_run_directory(context.policy);
  if (closed) return std::nullopt;
  return core::EffectFailed{intent.key, core::kind_of(intent.action), closed.error().message(),
                            false};
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::open(const DaemonOptions& options) {
  const bool patient = !options.once && !options.until_end;
  STOKER_TRY(foundation, lay_foundation(options.state_directory, patient));
  std::unique_ptr<Daemon> daemon(new Daemon(options, std::move(foundation)));
  STOKER_TRY_STATUS(daemon->begin());
  return daemon;
}

Daemon::Daemon(DaemonOptions options, Foundation foundation)
    : options_(std::move(options)), foundation_(std::move(foundation)) {}

Daemon::~Daemon() {
  stop();
}

void Daemon::stop() {
  for (auto& [place, mount] : mounts_) mount->leave();
  if (effects_) effects_->stop();
  for (auto& [place, observer] : observers_) observer->stop();
  errands_.stop();
  rereads_.stop();
  for (auto& [place, mount] : mounts_) mount->stop();
  if (turns_) turns_->stop();
}

Status Daemon::begin() {
  const std::string& state = foundation_.state_directory;
  for (const std::string& text : foundation_.announcements) log(LogLevel::Warning, text);
  scheduler_ = make_schedulers(options_, state, processes_, files_);
  STOKER_TRY(alerts, AlertPort::open(state));
  alerts_ = std::move(alerts);
  effects_ = std::make_unique<EffectPool>(
      kEffectThreads, [this](const core::Intent& intent) { return context_of(intent); },
      [this](const core::Intent& intent,
             const core::PerformContext& context) -> std::vector<core::EventBody> {
        if (auto ours = foundation_.possession->still_ours(); !ours) {
          if (foundation_.possession->lost()) return {};  // the new owner repeats it
          return {core::EffectFailed{intent.key, core::kind_of(intent.action),
                                     ours.error().message(), false}};
        }
        if (auto unsafe = why_unsafe(intent, context)) return {*std::move(unsafe)};
        core::Ports ports{*foundation_.clock, *scheduler_, files_, *alerts_};
        return core::perform(intent, context, ports);
      },
      [this](std::vector<core::Input> results) {
        if (!results.empty()) turns_->submit(std::move(results));
      });
  engine_ =
      std::make_unique<core::Engine>(*foundation_.journal, *effects_, *foundation_.clock, kBuild);
  turns_ = std::make_unique<Turns>(
      io_, Turns::Parts{*engine_, *foundation_.journal, *foundation_.poison},
      Turns::Hooks{[this](TurnReport report) { on_turn(std::move(report)); },
                   [this](const std::string& trouble) { on_trouble(trouble); }});
  site_.publisher = std::make_shared<RunPublisher>(state + "/published");
  site_.caught_up = std::make_shared<bool>(false);
  site_.mount = &mount_at("site");  // reads nothing of runs: the lease must not wait for them
  site_.mount->post([state] { os::sweep_aside_files(state + "/published"); },
                    {{}, watch::Part::Published});

  socket_ = std::make_unique<LineServer>(
      io_, [this](const Peer& peer, std::string line, LineServer::Answer answer) {
        on_request(peer, std::move(line), std::move(answer));
      });
  STOKER_TRY_STATUS(socket_->listen(state, kSocketName, kNoGroup));
  STOKER_TRY_STATUS(open_web_door());
  turns_->start(
      {kBuild, foundation_.possession->epoch(), foundation_.clock->away(), foundation_.clean});
  return ok();
}

core::PerformContext Daemon::context_of(const core::Intent& intent) {
  core::PerformContext context;
  const auto& runs = engine_->state().runs;
  if (const auto run = runs.find(intent.run); run != runs.end())
    context.policy = run->second.policy;
  else if (const auto left = leaving_.find(intent.run); left != leaving_.end())
    context.policy = left->second;  // the end of its alerts goes where they went
  else if (!runs.empty())           // an alert of the site goes where the first run's alerts go
    context.policy.alerts = runs.begin()->second.policy.alerts;
  context.state_directory = foundation_.state_directory;
  context.epoch = foundation_.possession->epoch();
  const std::string& agent = context.policy.train.agent;
  context.agent_command_prefix = {agent.empty() ? os::own_program("stoker-agent") : agent};
  return context;
}

DaemonExit Daemon::run() {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) signals_.add(signal);
  std::function<void()> listen = [this, &listen] {
    signals_.async_wait([this, &listen](const boost::system::error_code& code, int signal) {
      if (code) return;
      on_signal(signal);
      listen();
    });
  };
  listen();
  beat();
  io_.run();
  return exit_;
}

void Daemon::on_signal(int signal) {
  if (signal == SIGHUP) {
    notifier_.reloading();
    reload("SIGHUP", [this](const wire::Response& response) {
      log(response.ok ? LogLevel::Notice : LogLevel::Error, response.message);
      notifier_.ready("reloaded");
    });
    return;
  }
  log(LogLevel::Notice, "asked to leave; the trainings go on");
  end(DaemonExit::Done);
}

// The goodbye is journalled and published, then everything stops; a second call does not wait.
void Daemon::end(DaemonExit exit) {
  if (ending_) return io_.stop();
  ending_ = true;
  end_at_ = monotonic_now() + kGoodbyeLimit;
  exit_ = exit;
  notifier_.stopping();
  for (auto& [place, mount] : mounts_) mount->leave();  // they have a goodbye to write
  if (foundation_.possession->lost()) return io_.stop();
  turns_->submit({{{}, core::DaemonStopping{}, {}}}, [this](const std::vector<core::JournalRow>&) {
    goodbye_ = true;
    render(Scope::All);
  });
}

void Daemon::renew_lease() {
  site_.mount->post([this] {
    const auto renewed = foundation_.possession->renew();
    if (renewed || !foundation_.possession->lost()) return;  // a full disk is no successor
    boost::asio::post(io_, [this, why = renewed.error().message()] {
      log(LogLevel::Error, why + "; nothing is done here any more");
      exit_ = DaemonExit::Failed;
      io_.stop();
    });
  });
}

// A socket file that was removed, or replaced by a daemon that woke up late, is put back.
void Daemon::keep_socket() {
  site_.mount->post([this, file = socket_->file()] {
    if (file.in_place() || !foundation_.possession->still_ours()) return;
    boost::asio::post(io_, [this, file] {
      if (ending_ || !(file == socket_->file())) return;
      const auto again = socket_->listen(foundation_.state_directory, kSocketName, kNoGroup);
      log(again ? LogLevel::Warning : LogLevel::Error,
          again ? "the control socket was gone and is put back"
                : "the control socket is gone: " + again.error().message());
      socket_group_.reset();
      share_socket();
    });
  });
}

// Once a second: everything that is due by the clock.
void Daemon::beat() {
  ++beats_;
  if (ending_ && monotonic_now() > end_at_) return io_.stop();  // no room for a goodbye
  if (foundation_.possession->network()) renew_lease();
  keep_socket();
  try_web_again();
  const bool engine_stuck = turns_->busy_for() > kEngineStuck && trouble_.empty();
  if (engine_stuck)
    log(LogLevel::Error,
        fmt::format("the engine has been busy for {}", format_duration(turns_->busy_for())));
  else
    notifier_.watchdog();
  pass_over_stuck_parts();
  tell_unread_runs();
  effects_->keep_going();
  heed_silent_logs();
  if (beats_ % 60 == 1 && trouble_.empty())
    site_.mount->post(
        [this] { (void)pulse_.keep_room(); });  // without free space there is no reserve
  const bool active =
      std::any_of(runs_.begin(), runs_.end(), [](const auto& run) { return !run.second.retired; });
  if (beats_ % (active ? 5 : 30) == 0)
    render(Scope::All);
  else if (dirty_)
    render(Scope::Changed);
  if (started_ && beats_ % 60 == 2)
    turns_->inspect([this](core::Engine&, SqliteJournal&) {
      if (auto status = back_up(foundation_, wall_now()); !status)
        log(LogLevel::Warning, "no backup of the journal: " + status.error().message());
    });
  if (started_ && beats_ % 10 == 2) {
    repeat_alerts();
    note_weeks();
  }
  check_end();
  beat_timer_.expires_after(kBeat);
  beat_timer_.async_wait([this](const boost::system::error_code& code) {
    if (!code) beat();
  });
}

void Daemon::arm_wake(std::optional<Instant> at) {
  if (!at || waking_ || ending_) {
    if (!waking_) wake_timer_.cancel();
    return;
  }
  wake_timer_.expires_after(std::max<Duration>(*at - foundation_.clock->now(), kShortestTick));
  wake_timer_.async_wait([this](const boost::system::error_code& code) {
    if (!code) wake();
  });
}

// A Tick wants digests that are up to date: all mounts hand theirs over first, or are too slow.
void Daemon::wake() {
  waking_ = true;
  struct Gather {
    std::vector<core::Input> inputs;
    std::size_t missing = 0;
    bool fed = false;
  };
  auto gather = std::make_shared<Gather>();
  const auto feed = [this, gather] {
    if (std::exchange(gather->fed, true)) return;
    gather->inputs.push_back({{}, core::Tick{}, {}});
    waking_ = false;
    wake_timer_.cancel();
    turns_->submit(std::move(gather->inputs));
  };
  gather->missing = mounts_.size();
  for (auto& [place, mount] : mounts_)
    mount->flush([this, gather, feed](std::vector<core::Input> inputs) {
      boost::asio::post(io_, [this, gather, feed, inputs = std::move(inputs)]() mutable {
        if (gather->fed) return turns_->submit(std::move(inputs));  // late, but not lost
        for (core::Input& input : inputs) gather->inputs.push_back(std::move(input));
        if (--gather->missing == 0) feed();
      });
    });
  wake_timer_.expires_after(kFlushLimit);
  wake_timer_.async_wait([feed](const boost::system::error_code& code) {
    if (!code) feed();
  });
}

// --run: the file is taken under supervision at start. No person is asked then, so that no other
// user may write it, unless its text has been confirmed before.
void Daemon::ask_run_file(const std::string& path) {
  const auto give_up = [this](const std::string& why) {
    log(LogLevel::Error, why);
    end(DaemonExit::Failed);
  };
  const auto file = os::absolute_path(path);
  const os::Fd confirmed(options_.run_text);
  const auto text = confirmed ? os::read_open_file(confirmed.get(), path, configs::kLargestYaml)
                              : os::read_guarded_file(path, configs::kLargestYaml);
  if (!file || !text) return give_up((file ? text.error() : file.error()).message());
  wire::Request request;
  request.verb = "run";
  request.text = *text;
  request.arguments["path"] = *file;
  constexpr Duration kPatience = 1min;  // no client waits
  ask_run(request, rights_.name_of(::geteuid()), kPatience,
          [this, give_up](const wire::Response& response) {
            if (!response.ok && response.data.contains("errors")) {
              for (const Json& error : response.data["errors"])
                log(LogLevel::Error, error.get_ref<const std::string&>());
              return end(DaemonExit::Usage);
            }
            if (!response.ok) return give_up(response.message);
            awaited_ = RunName(response.data.value("run", ""));
            check_end();
          });
}

// Is what --once or --until-end waits for there?
void Daemon::check_end() {
  if (ending_ || !started_) return;
  if (options_.until_end && !awaited_.empty()) {
    const auto run = runs_.find(awaited_);
    if (run == runs_.end() || effects_->waiting() > 0 || !run->second.retired) return;
    if (run->second.state == "finished") end(DaemonExit::Done);
    if (run->second.state == "held") end(DaemonExit::Held);
    if (run->second.state == "stopped") end(DaemonExit::Stopped);
  }
  if (options_.once) finish_if_quiet();
}

// --once: everything was checked and no effect is in flight.
void Daemon::finish_if_quiet() {
  bool observed = true, seeing = true, person = false;
  for (const auto& [place, observer] : observers_) {
    if (!observer->asking()) continue;
    observed = observed && observer->answers() > 1;
    seeing = seeing && !observer->blind();
  }
  for (const auto& [place, mount] : mounts_) {
    observed = observed && mount->polls() > 1;
    seeing = seeing && mount->trouble().empty();
  }
  for (const auto& [name, run] : runs_) person = person || run.state == "held";
  const bool late = monotonic_now() - started_at_ > kOnceLimit;
  const bool quiet = observed && turns_->idle() && effects_->waiting() == 0;
  if (!quiet) quiet_since_.reset();
  if (quiet && !quiet_since_) quiet_since_ = monotonic_now();
  const Duration quiet_for = quiet ? monotonic_now() - *quiet_since_ : Duration::zero();
  // The next pass would send again what a slow receiver has not acknowledged yet.
  if (quiet && !sends_since_) sends_since_ = monotonic_now();
  const bool sends =
      quiet && monotonic_now() - *sends_since_ < kOnceAlerts && !alerts_->wait_idle(0ns);
  if (!late && (quiet_for < kOnceQuiet || sends)) return;
  end(late || !seeing ? DaemonExit::Failed : person ? DaemonExit::NeedsPerson : DaemonExit::Done);
}

}  // namespace stoker::daemon
