// A run without agents: its policy, what the daemon sees of it, what strikes it; and the requests
// of people by the socket.
#include <algorithm>
#include <fmt/format.h>

#include "sim/universe/universe.hpp"

namespace stoker::sim {
namespace {

constexpr const char* kScript = "/home/alice/train.slurm";
constexpr const char* kSwitch = "/runs/sim/stop-here";

bool in_share(Random& random, double share) {
  return random.chance(static_cast<std::uint32_t>(share * 1000));
}

// What this seed's script can do.
void adopt(core::RunPolicy& policy, const Scenario& scenario, Random& random) {
  const ScriptShape& shape = scenario.script;
  policy.train.batch_script = kScript;
  policy.train.command.clear();
  policy.scheduler.spares = 0;
  policy.checkpoints.format = "megatron";
  policy.checkpoints.keep_last = 0;
  if (!in_share(random, shape.array)) policy.scheduler.array_tasks = 1;
  if (in_share(random, shape.kill_switch)) policy.train.kill_switch = kSwitch;
  if (in_share(random, shape.save_signal)) policy.train.save_signal = "USR1";
  if (in_share(random, shape.exit_zero))
    policy.train.finished.exit_zero = true;
  else if (random.chance(500))  // else its log says how many iterations there are
    policy.train.finished.iteration = scenario.training.total;
}

}  // namespace

void Universe::make_script() {
  adopt(told_policy_, scenario_, random_);
  const auto minutes = told_policy_.scheduler.time_limit / 1min;
  files_.content[kScript] = fmt::format(
      "#!/bin/bash\n#SBATCH --nodes={}\n#SBATCH --time={}-{:02}:{:02}:00\nsrun train.py\n",
      told_policy_.scheduler.nodes.front().nodes, minutes / 1440, minutes / 60 % 24, minutes % 60);
  scripts_ = std::make_unique<ScriptJobs>(
      time_, random_, *cluster_, files_, scenario_, told_policy_,
      ScriptJobs::Hooks{[this](const std::string& text) { say(text); },
                        [this](const ScriptJobs::Start& s) {
                          checker_->now(time_.now());
                          checker_->script_begins(s, excuse());
                        },
                        [this](const ScriptJobs::Start& s) {
                          checker_->now(time_.now());
                          checker_->script_completes(s);
                        },
                        [this] { ask_at_end(); }, [this] { return storage_free_; },
                        [this] { return disk_full_until_ > time_.now(); },
                        [this] { return doomed_until_ > time_.now(); }});
  eyes_ = std::make_unique<ScriptEyes>(told_policy_, scenario_.training.total, settings_.broken);
  checker_->watch(*scripts_);
  slurm_->look_with([this](std::uint64_t job, const NodeName& node) {
    return scripts_->processes_on(job, node);
  });
}

void Universe::see_script(const core::SiteState& state) {
  const auto run = state.runs.find(told_policy_.run);
  if (run == state.runs.end()) return;
  eyes_->set_generation(run->second.live ? run->second.live->generation : Generation{},
                        time_.now());
}

// While the file system stands, who reads stands as well.
std::vector<core::Input> Universe::look_at_script(bool at_once) {
  if (storage_free_ > time_.now()) return {};
  const bool blind = lines_from_ > time_.now() ||
                     (settings_.broken == Guard::LastLines && scripts_->live() == nullptr);
  return eyes_->look(scripts_->lines(), time_.now(), blind, at_once);
}

void Universe::plan_looks() {
  time_.after(random_.between(1s, 5s), [this] {
    plan_looks();
    if (!daemon_->up() || daemon_->asleep()) return;
    const auto run = daemon_->state().runs.find(told_policy_.run);
    if (run != daemon_->state().runs.end() && tell_hang(run->second)) return;
    for (core::Input& input : look_at_script(false)) daemon_->feed(std::move(input));
  });
}

// What strikes agents alone, or what only agents tell, does not apply.
bool Universe::strike_script(Fault fault, Duration lasts) {
  switch (fault) {
    case Fault::RankCrash: return scripts_->crash("signal 11");
    case Fault::GpuFault: {
      const ScriptJobs::Start* s = scripts_->live();
      if (s == nullptr) return false;
      const NodeName node = s->nodes[random_.below(s->nodes.size())];
      cluster_->nodes().at(node).bad = true;
      time_.after(scenario_.cluster.repair,
                  [this, node] { cluster_->nodes().at(node).bad = false; });
      return scripts_->crash("its GPU is lost", node);
    }
    case Fault::HangOne:
    case Fault::HangAll: return scripts_->freeze();
    case Fault::NodeDeath: return scripts_->lose_node(false);
    case Fault::LeadDeath: return scripts_->lose_node(true);
    case Fault::SlowNode: {
      const ScriptJobs::Start* s = scripts_->live();
      if (s == nullptr) return false;
      const NodeName node = s->nodes[random_.below(s->nodes.size())];
      cluster_->set_slow(node, true);
      time_.after(lasts, [this, node] { cluster_->set_slow(node, false); });
      return true;
    }
    case Fault::StorageStall:
    case Fault::HeartbeatDelay:
    case Fault::DiskFull: return strike_storage(fault, time_.now() + lasts);
    case Fault::CrashLoop:
      doomed_until_ = std::max(doomed_until_, time_.now() + lasts);
      return scripts_->crash("a module is broken");
    case Fault::Zombie: return scripts_->orphan();
    case Fault::LinkFlap: return scripts_->flap(lasts);
    case Fault::QueueJam:
    case Fault::Preempted:
    case Fault::LimitCut:
    case Fault::StaleHandles:
    case Fault::WrongExclusion: return strike_site(fault, lasts);
    default: return false;
  }
}

bool Universe::strike_more(Fault fault) {
  static constexpr const char* kVerbs[] = {"restart", "save",    "stop",     "pause",
                                           "resume",  "restart", "rollback", "kill"};
  switch (fault) {
    case Fault::Order: ask(kVerbs[random_.below(std::size(kVerbs))]); return true;
    case Fault::KillSwitch: {
      if (!scripts_ || told_policy_.train.kill_switch.empty()) return false;
      set_kill_switch(random_.between(5min, 1h));
      return true;
    }
    case Fault::DaemonFreeze: {
      if (!daemon_->up() || daemon_->asleep()) return false;
      Daemon* const sleeper = daemon_.get();
      sleeper->sleep(true);
      time_.after(random_.between(10s, 20min), [this, sleeper] {
        if (sleeper == daemon_.get()) sleeper->sleep(false);
      });
      return true;
    }
    case Fault::SlurmctldRestart:
      cluster_->controller_restarts();
      strike_scheduler(Fault::ControllerDown, random_.between(2s, 40s));
      return true;
    default: return false;
  }
}

// An operator who has stopped or paused thinks better of it.
void Universe::ask(const std::string& verb) {
  if (!daemon_->up() || daemon_->asleep()) return;
  core::OperatorAsked asked;
  asked.verb = verb;
  asked.by = "dave";
  asked.reason = "at random";
  asked.via = "socket";
  if (verb == "rollback" && scripts_ && !scripts_->checkpoints().empty()) {
    const auto& there = scripts_->checkpoints();
    asked.arguments["to"] = std::to_string(there[random_.below(there.size())].value);
  }
  say("operator: " + verb);
  person_at_ = time_.now();
  daemon_->feed({told_policy_.run, asked, {}});
  if (verb == "stop" || verb == "kill" || verb == "pause")
    time_.after(random_.between(5s, 1h), [this] { ask("resume"); });
}

void Universe::set_kill_switch(Duration until) {
  const std::string& path = told_policy_.train.kill_switch;
  person_at_ = time_.now();
  files_.content[path] = "alice\n";
  scripts_->look_at_switch();
  time_.after(until, [this] { files_.content.erase(told_policy_.train.kill_switch); });
}

// Requests like to come when it is over.
void Universe::ask_at_end() {
  if (healed_ || !in_share(random_, scenario_.script.order_at_end)) return;
  static constexpr const char* kVerbs[] = {"restart", "restart", "save", "stop", "pause"};
  time_.after(random_.between(0s, 90s), [this, verb = kVerbs[random_.below(std::size(kVerbs))]] {
    if (!healed_) ask(verb);
  });
}

// A person looks for what runs on unseen, and takes the switch away.
void Universe::mend_script() {
  if (!scripts_) return;
  scripts_->end_orphans();
  if (!told_policy_.train.kill_switch.empty()) files_.content.erase(told_policy_.train.kill_switch);
}

}  // namespace stoker::sim
