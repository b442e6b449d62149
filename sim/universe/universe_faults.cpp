// Faults: when they strike, what they do, and how everything heals.
#include <algorithm>
#include <fmt/format.h>

#include "sim/universe/universe.hpp"

namespace stoker::sim {
namespace {

// How long a fault usually lasts; zero: it strikes once.
Duration usual_length(Fault fault, Random& random) {
  switch (fault) {
    case Fault::StorageStall: return random.between(1min, 20min);
    case Fault::HeartbeatDelay: return random.between(1min, 30min);
    case Fault::DiskFull: return random.between(5min, 2h);
    case Fault::ControllerDown: return random.between(1min, 3h);
    case Fault::SqueueFails:
    case Fault::SqueueHangs:
    case Fault::SqueueEmpty:
    case Fault::SqueueStale:
    case Fault::SqueueForeign:
    case Fault::SqueueTorn: return random.between(1min, 90min);
    case Fault::SqueueDoubled:
    case Fault::SqueueShuffled: return random.between(1h, 12h);
    case Fault::SubmitReplyLost:
    case Fault::SubmitLost:
    case Fault::SubmitRefused: return random.between(1min, 30min);
    case Fault::SlowNode: return 24h;
    case Fault::CrashLoop: return random.between(1h, 4h);
    case Fault::RateReset:
    case Fault::OtherData:
    case Fault::ReplicasDrift: return 24h;
    case Fault::QueueJam: return random.between(1h, 10h);
    case Fault::StaleHandles:
    case Fault::TornLines: return random.between(1min, 20min);
    case Fault::LinkFlap: return random.between(5s, 5min);
    case Fault::Suspended: return random.between(5s, 1min) * (random.chance(500) ? 1 : 180);
    case Fault::LateFiles: return random.between(10min, 6h);
    case Fault::RowRemap: return random.between(1h, 24h);
    default: return 0s;
  }
}

bool is_liar(Fault fault) {
  return (fault >= Fault::SqueueFails && fault <= Fault::ControllerDown);
}

wire::KernelLine lost_gpu(const NodeName& node) {
  wire::KernelLine line;
  line.node = node;
  line.event_class = "xid";
  line.text = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.";
  line.xid = 79;
  line.gpu_pci = "0000:3b:00";
  line.node_suspect = NodeSuspect::Yes;
  return line;
}

}  // namespace

void Universe::plan_faults() {
  for (const auto& [fault, mean] : scenario_.every) plan_next(fault, mean);
  for (const PlannedFault& event : scenario_.events)
    for (std::uint32_t i = 0; i < event.times; ++i) plan_event(event, ++numbered_);
  numbered_ = 100000;  // random ones are numbered from here
  recur_bad_nodes();
}

void Universe::plan_next(Fault fault, Duration mean) {
  time_.after(std::max<Duration>(1s, random_.exponential(mean)), [this, fault, mean] {
    if (healed_) return;
    const std::uint32_t number = ++numbered_;
    const Duration lasts = usual_length(fault, random_);
    struck_ = number;
    if (!settings_.skip.contains(number)) strike(fault, lasts);
    plan_next(fault, mean);
  });
}

// At a moment, or as soon as the iteration (or its evaluation) is there.
void Universe::plan_event(const PlannedFault& event, std::uint32_t number) {
  if (settings_.skip.contains(number)) return;
  const auto ready = [this, event] {
    if (event.iteration == 0) return true;
    if (scripts_) return scripts_->reached().value >= event.iteration;
    const SimGeneration* g = training_->live();
    if (g == nullptr || g->frozen_at || g->last_fault != Instant{}) return false;
    if (event.in_evaluation && g->stage != Stage::Evaluate) return false;
    return training_->completed(*g).value >= event.iteration &&
           (g->stage == Stage::Iterate || event.in_evaluation);
  };
  const auto try_it = std::make_shared<std::function<void()>>();
  *try_it = [this, event, ready, number, try_it] {
    if (healed_) return;
    if (!ready()) {
      time_.after(10s, *try_it);
      return;
    }
    struck_ = number;
    strike(event.fault, event.lasts > 0ns ? event.lasts : usual_length(event.fault, random_),
           event);
  };
  time_.after(event.at, *try_it);
}

void Universe::strike(Fault fault, Duration lasts, const PlannedFault& how) {
  ++faults_;
  say(fmt::format("fault {} {}{}", struck_, name_of(fault),
                  lasts > 0ns ? " for " + format_duration(lasts) : ""));
  if (is_liar(fault)) return strike_scheduler(fault, lasts);
  if (fault == Fault::DaemonKill || fault == Fault::SecondDaemon || fault == Fault::ClockJump)
    return strike_daemon(fault);
  if (fault == Fault::Scancel || fault == Fault::Switch) return strike_people(fault);
  const bool struck = fault > Fault::LateFiles    ? strike_more(fault)
                      : scripts_                  ? strike_script(fault, lasts)
                      : fault >= Fault::QueueJam  ? strike_site(fault, lasts)
                      : fault >= Fault::LossSpike ? strike_numbers(fault, lasts, how)
                                                  : strike_training(fault, lasts);
  if (!struck) --faults_;
}

void Universe::strike_scheduler(Fault fault, Duration lasts) {
  slurm_->wake(fault, true);
  blind_end_ = std::max(blind_end_, time_.now() + lasts);
  time_.after(lasts, [this, fault] { slurm_->wake(fault, false); });
}

bool Universe::strike_training(Fault fault, Duration lasts) {
  SimGeneration* g = training_->live();
  const auto end = time_.now() + lasts;
  const bool trains = g != nullptr && !g->attempt_nodes.empty();
  const auto some_node = [&] { return g->attempt_nodes[random_.below(g->attempt_nodes.size())]; };
  switch (fault) {
    case Fault::RankCrash: return training_->crash("signal 11");
    case Fault::GpuFault: {
      if (!trains) return false;
      const NodeName node = some_node();
      cluster_->nodes().at(node).bad = true;
      time_.after(scenario_.cluster.repair,
                  [this, node] { cluster_->nodes().at(node).bad = false; });
      wire::AgentEvent line;
      line.at = time_.now();
      line.body = lost_gpu(node);
      lines_.push_back({g->number, wire::format_event_line(line)});
      return training_->crash("its GPU is lost", node);
    }
    case Fault::HangOne: return training_->freeze(true);
    case Fault::HangAll: return training_->freeze(false);
    case Fault::NodeDeath: return trains && training_->lose_node(some_node());
    case Fault::LeadDeath: return trains && training_->lose_node(g->host());
    case Fault::SlowNode: {
      if (!trains) return false;
      const NodeName node = some_node();
      cluster_->set_slow(node, true);
      training_->look_at_nodes();
      time_.after(lasts, [this, node] {
        cluster_->set_slow(node, false);
        training_->look_at_nodes();
      });
      return true;
    }
    case Fault::StorageStall:
    case Fault::HeartbeatDelay:
    case Fault::DiskFull: return strike_storage(fault, end);
    case Fault::TornSave:
      return random_.chance(500) ? training_->tear_newest() : training_->tear_next();
    case Fault::CrashLoop:
      doomed_until_ = std::max(doomed_until_, end);
      return training_->crash("a module is broken");
    case Fault::Zombie: {
      if (!trains) return false;
      g->zombie = true;  // cut off from the controller; its processes train on for a while
      cluster_->take_for_dead(g->job, g->task);
      time_.after(1h, [this, number = g->number] {
        SimGeneration& then = training_->all().at(number);
        then.alive = false;
        ++then.serial;
      });
      return true;
    }
    case Fault::StaleLines: {  // of an attempt before: a digest and a phase
      if (!trains || g->attempt.value < 2 || !daemon_->up()) return false;
      core::Digest digest;
      digest.generation = g->number;
      digest.last = training_->beat(*g);
      digest.last.attempt =
          settings_.broken == Guard::StalePhase ? g->attempt : Attempt(g->attempt.value - 1);
      digest.last.phase = wire::Phase::Evaluation;
      digest.last.phase_age_ms = digest.last.progress_age_ms = digest.last.newest_progress_age_ms =
          5 * 3600 * 1000;
      daemon_->feed({told_policy_.run, std::move(digest), {}});
      return true;
    }
    default: return false;
  }
}

bool Universe::strike_storage(Fault fault, Instant end) {
  switch (fault) {
    case Fault::StorageStall:
      if (storage_free_ <= time_.now()) stalled_at_ = time_.now();
      storage_free_ = std::max(storage_free_, end);
      lines_from_ = std::max(lines_from_, end);
      time_.at(lines_from_, [this] { take_lines(); });
      return true;
    case Fault::HeartbeatDelay:
      lines_from_ = std::max(lines_from_, end);
      delayed_until_ = std::max(delayed_until_, end);
      time_.at(lines_from_, [this] { take_lines(); });
      return true;
    case Fault::DiskFull:
      disk_full_until_ = std::max(disk_full_until_, end);
      refuse_files();
      time_.at(disk_full_until_, [this] {
        if (disk_full_until_ > time_.now()) return;
        refuse_files();
        if (daemon_->up())
          daemon_->feed({told_policy_.run, core::DiskFull{"/runs/sim", "", false}, {}});
      });
      if (daemon_->up() && !daemon_->asleep())
        daemon_->feed({told_policy_.run,
                       core::DiskFull{"/runs/sim", "/runs/sim: No space left on device", true},
                       {}});
      return true;
    default: return false;
  }
}

void Universe::strike_daemon(Fault fault) {
  if (fault == Fault::ClockJump) return daemon_->jump_clock(random_.between(0s, 20min) - 10min);
  if (!daemon_->up() || daemon_->asleep()) return;
  if (fault == Fault::DaemonKill) {
    const Duration away = random_.between(1s, 30min);
    daemon_->kill();
    if (settings_.broken == Guard::Dedupe && taken_ > 0)
      taken_ -= std::min<std::size_t>(taken_, 1 + random_.below(6));
    time_.after(away, [this, away] {
      start_daemon(away);
      checker_->after_kill(daemon_->journal());
      take_lines();
    });
    return;
  }
  // The old one sleeps in the middle of its work; a new one takes over its journal.
  std::unique_ptr<Daemon> old = std::move(daemon_);
  old->sleep(true);
  SimJournal journal = old->journal();
  const Epoch epoch(old->epoch().value + 1);
  Daemon* const sleeper = old.get();
  older_.push_back(std::move(old));
  make_daemon(std::move(journal), epoch, 1min);
  take_lines();
  time_.after(random_.between(1min, 10min), [this, sleeper] {
    if (settings_.broken == Guard::Lease) {
      sleeper->sleep(false);  // it wakes, without a notice that it is no longer in charge
      time_.after(5min, [sleeper] { sleeper->kill(); });
    } else {
      sleeper->sleep(false);
      time_.after(5s, [sleeper] { sleeper->kill(); });  // its effects find the lease taken
    }
  });
}

void Universe::strike_people(Fault fault) {
  if (fault == Fault::Scancel) {
    const auto [job, task] = cluster_->running(told_policy_.run.text);
    if (job == nullptr) return;
    person_at_ = time_.now();
    if (random_.chance(300))  // or what waits behind it
      cluster_->cancel(job->id, 0, true);
    else
      cluster_->cancel(job->id, task, false);
    return;
  }
  static constexpr const char* kVerbs[] = {"save", "stop", "pause", "restart", "resume"};
  const std::string verb = kVerbs[switches_++ % std::size(kVerbs)];
  person_at_ = time_.now();
  files_.content["/runs/sim/switch/" + verb] = "{}";
  if (verb == "stop" || verb == "pause")  // an operator thinks better of it
    time_.after(random_.between(10min, 3h), [this] {
      person_at_ = time_.now();
      files_.content["/runs/sim/switch/resume"] = "{}";
    });
}

// A bad GPU fails again as long as its node is used.
void Universe::recur_bad_nodes() {
  time_.after(random_.between(20min, 2h), [this] {
    recur_bad_nodes();
    if (healed_) return;
    if (scripts_) {
      for (const auto& [name, node] : cluster_->nodes())
        if (node.bad && scripts_->crash("its GPU is lost again", name)) return;
      return;
    }
    const SimGeneration* g = training_->live();
    if (g == nullptr || g->stage == Stage::Waiting) return;
    for (const NodeName& node : g->attempt_nodes)
      if (cluster_->nodes().at(node).bad) {
        training_->crash("its GPU is lost again", node);
        checker_->fails_again(*g, node);
        return;
      }
  });
}

void Universe::heal() {
  healed_ = true;
  say("everything heals");
  for (std::size_t i = 0; i < kFaults; ++i) slurm_->wake(static_cast<Fault>(i), false);
  lines_from_ = std::max(time_.now(), storage_free_);  // a stall that ranks wait for ends by itself
  disk_full_until_ = doomed_until_ = time_.now();
  stale_until_ = torn_until_ = late_until_ = time_.now();
  refuse_files();
  training_->mend();
  mend_script();
  cluster_->jam(time_.now());
  cluster_->repair_all();
  cluster_->poll();
  if (!daemon_->up()) start_daemon(1min);
  if (daemon_->up()) daemon_->feed({told_policy_.run, core::DiskFull{"/runs/sim", "", false}, {}});
  time_.at(lines_from_, [this] { take_lines(); });
  training_->look_at_nodes();
  // Somebody comes and resumes what people stopped or what waits for one.
  time_.after(30min, [this] {
    person_at_ = time_.now();
    if (!daemon_->up()) return;
    core::OperatorAsked resume;
    resume.verb = "resume";
    resume.by = "alice";
    resume.reason = "mended";
    resume.via = "socket";
    daemon_->feed({told_policy_.run, resume, {}});
  });
}

}  // namespace stoker::sim
