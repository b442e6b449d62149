// Reading a scenario.
#include "sim/universe/scenario.hpp"

#include <algorithm>

#include "configs/schema/yaml_reader.hpp"

namespace stoker::sim {
namespace {

void positive(configs::MapReader& m, const char* key, Duration& value) {
  m.read(key, value);
  m.check(key, value > 0ns, "must be longer than 0s");
}
template <class T>
void at_least_one(configs::MapReader& m, const char* key, T& value) {
  m.read(key, value);
  m.check(key, value >= 1 && value <= 1'000'000'000, "must be between 1 and 1000000000");
}

void read_cluster(configs::MapReader& m, ClusterShape& c) {
  at_least_one(m, "nodes", c.nodes);
  m.check("nodes", c.nodes <= 20000, "at most 20000");
  at_least_one(m, "gpus_per_node", c.gpus_per_node);
  m.check("gpus_per_node", c.gpus_per_node <= 64, "at most 64");
  positive(m, "queue_wait", c.queue_wait);
  positive(m, "task_gap", c.task_gap);
  positive(m, "boot", c.boot);
  positive(m, "repair", c.repair);
  positive(m, "remembers", c.remembers);
  positive(m, "completing", c.completing);
  m.read("tells_nodes", c.tells_nodes);
  m.read("accounts", c.accounts);
  positive(m, "poll", c.poll);
}

void read_training(configs::MapReader& m, TrainingShape& t) {
  positive(m, "iteration", t.iteration);
  positive(m, "startup", t.startup);
  positive(m, "load", t.load);
  at_least_one(m, "save_every", t.save_every);
  m.read("memory_every", t.memory_every);
  positive(m, "save", t.save);
  m.read("evaluate_every", t.evaluate_every);
  positive(m, "evaluation", t.evaluation);
  at_least_one(m, "total", t.total);
  m.read("tflops", t.tflops);
  m.read("tells_compute", t.tells_compute);
  positive(m, "digest_every", t.digest_every);
  m.read_share("step_noise", t.step_noise);
  m.read_share("daily_swing", t.daily_swing);
  at_least_one(m, "batch", t.numbers.batch);
  m.read("learning_rate", t.numbers.learning_rate);
  m.check("learning_rate", t.numbers.learning_rate > 0 && t.numbers.learning_rate < 1,
          "must be between 0 and 1");
  at_least_one(m, "warm_up", t.numbers.warm_up);
  m.read_share("noise", t.numbers.noise);
  m.check("tflops", t.tflops >= 0 && t.tflops < 1e7, "must be between 0 and 1e7");
}

void read_script(configs::MapReader& m, ScriptShape& s) {
  s.on = true;
  m.read_share("kill_switch", s.kill_switch);
  m.read_share("save_signal", s.save_signal);
  m.read_share("exit_zero", s.exit_zero);
  m.read_share("array", s.array);
  m.read_share("order_at_end", s.order_at_end);
}

void read_policy(configs::MapReader& m, core::RunPolicy& p) {
  at_least_one(m, "nodes", p.scheduler.nodes.front().nodes);
  m.read("nodes_allowed", p.scheduler.nodes_allowed);
  m.read("spares", p.scheduler.spares);
  positive(m, "time_limit", p.scheduler.time_limit);
  at_least_one(m, "tasks", p.scheduler.array_tasks);
  positive(m, "exit_before_limit", p.train.exit_before_limit);
  m.read("in_allocation", p.recover.in_allocation);
  m.read("on_scancel", p.recover.on_scancel);
  at_least_one(m, "restarts", p.recover.restarts_total);
  at_least_one(m, "without_progress", p.recover.restarts_without_progress);
  positive(m, "refill", p.recover.refill);
  positive(m, "exclude_for", p.recover.exclude_for);
  m.read_share("exclude_at_most", p.recover.exclude_at_most);
  positive(m, "floor", p.hang.floor);
  positive(m, "ceiling", p.hang.ceiling);
  positive(m, "startup_limit", p.hang.startup);
  positive(m, "load_limit", p.hang.load);
  positive(m, "evaluation_limit", p.hang.evaluation);
  positive(m, "checkpoint_limit", p.hang.checkpoint);
  m.read("keep_last", p.checkpoints.keep_last);
  m.read("pin", p.checkpoints.pin);
  m.read("archive_every", p.checkpoints.archive_every);
  if (p.checkpoints.archive_every > 0) p.checkpoints.archive_to = "/store/sim";
  if (m.has("follow_every")) {
    core::FollowerPolicy follower;
    follower.name = "evaluate";
    follower.command = {"evaluate.py", "{checkpoint}"};
    follower.time_limit = 1h;
    at_least_one(m, "follow_every", follower.every);
    at_least_one(m, "follow_at_once", follower.at_once);
    at_least_one(m, "follow_tries", follower.tries);
    p.after.push_back(std::move(follower));
  }
  m.read("rollback", p.recover.rollback_enabled);
  m.read("rollback_at_most", p.recover.rollback_at_most);
  m.read("lr_scale", p.recover.rollback_lr_scale);
  m.check("lr_scale", p.recover.rollback_lr_scale > 0 && p.recover.rollback_lr_scale <= 10,
          "must be above 0 and at most 10");
}

void read_event(configs::MapReader& m, PlannedFault& e) {
  m.require("fault", e.fault);
  m.read("at", e.at);
  m.read("iteration", e.iteration);
  m.one_of({"at", "iteration"}, true);
  m.read("lasts", e.lasts);
  m.read("in_evaluation", e.in_evaluation);
  m.read("times", e.times);
  m.check("times", e.times >= 1 && e.times <= 1000, "must be between 1 and 1000");
  m.read("height", e.height);
  m.check("height", e.height > 0 && e.height <= 100, "must be above 0 and at most 100");
  m.read("climb", e.climb);
  m.read("stubborn", e.stubborn);
}

core::RunPolicy default_policy() {
  core::RunPolicy p;
  p.run = RunName("sim");
  p.directory = "/runs/sim";
  p.config_directory = "/runs";
  p.scheduler.kind = core::SchedulerKind::Slurm;
  p.scheduler.nodes = {{0, 4}};
  p.train.command = {"stoker-train", "--config", "train.yaml"};
  p.hang.floor = 5min;
  return p;
}

}  // namespace

Scenario read_scenario(std::string_view text, const std::string& file,
                       configs::Diagnostics& errors) {
  Scenario s;
  s.policy = default_policy();
  configs::YamlReader reader(text, file);
  reader.root([&](configs::MapReader& m) {
    m.require("name", s.name);
    m.require("about", s.about);
    m.read("source", s.source);
    m.map("people", [&](configs::MapReader& p) {
      p.read("lost", s.lost_by_people);
      p.read("did", s.people);
    });
    positive(m, "for", s.length);
    positive(m, "heals", s.heals);
    m.map("cluster", [&](configs::MapReader& c) { read_cluster(c, s.cluster); });
    m.map("training", [&](configs::MapReader& t) { read_training(t, s.training); });
    if (m.has("script")) m.map("script", [&](configs::MapReader& p) { read_script(p, s.script); });
    m.map("policy", [&](configs::MapReader& p) { read_policy(p, s.policy); });
    m.map("faults", [&](configs::MapReader& f) {  // one every so long
      for (std::size_t i = 0; i < kFaults; ++i) {
        const char* name = EnumNames<Fault>::names.at(i);
        Duration every{};
        f.read(name, every);
        if (!f.has(name)) continue;
        f.check(name, every >= 1s, "must be at least 1s");
        s.every[static_cast<Fault>(i)] = std::max<Duration>(every, 1s);
      }
    });
    m.list("events", [&](configs::ValueReader& item) {
      item.map([&](configs::MapReader& e) { read_event(e, s.events.emplace_back()); });
    });
    m.map("expect", [&](configs::MapReader& e) {
      e.read("lost_at_most", s.expect.lost_at_most);
      e.read_share("ettr_at_least", s.expect.ettr_at_least);
      e.read("held", s.expect.held);
      e.read("alerts", s.expect.alerts);
    });
    const std::uint32_t wanted = s.policy.scheduler.nodes.front().nodes + s.policy.scheduler.spares;
    m.check("cluster", s.cluster.nodes >= wanted, "has fewer nodes than policy asks for");
  });
  s.policy.train.ranks_per_node = s.cluster.gpus_per_node;
  s.policy.scheduler.gpus_per_node = s.cluster.gpus_per_node;
  const auto found = reader.errors();
  errors.insert(errors.end(), found.begin(), found.end());
  return s;
}

}  // namespace stoker::sim
