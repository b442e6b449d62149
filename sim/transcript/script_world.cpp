// Script: the daemon, the scheduler, people and disks.
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "sim/transcript/script.hpp"

namespace stoker::sim {
namespace {

core::FollowerPolicy follower_of(Words& words, const std::string& name) {
  core::FollowerPolicy follower;
  follower.name = name;
  follower.every = words.number("every", 100);
  follower.command = {"evaluate.py", "{checkpoint}"};
  follower.at_once = static_cast<std::uint32_t>(words.number("at_once", 1));
  follower.tries = static_cast<std::uint32_t>(words.number("tries", 3));
  follower.backlog = static_cast<std::uint32_t>(words.number("backlog", 3));
  return follower;
}

}  // namespace

Status Script::do_policy(Words& words) {
  core::RunPolicy& p = policy_;
  if (const auto v = words.value("command")) p.train.command = {*v};
  p.train.save_signal = words.value("save_signal").value_or(p.train.save_signal);
  if (const auto v = words.value("script")) {
    p.train.batch_script = *v;
    p.train.command.clear();
  }
  p.train.kill_switch = words.value("kill_switch").value_or(p.train.kill_switch);
  p.train.finished.file = words.value("finished_file").value_or(p.train.finished.file);
  if (words.value("exit_zero")) p.train.finished.exit_zero = true;
  p.train.exit_before_limit = words.duration("exit_before", p.train.exit_before_limit);
  p.train.ranks_per_node =
      static_cast<std::uint32_t>(words.number("ranks", p.train.ranks_per_node));
  p.checkpoints.format = words.value("format").value_or(p.checkpoints.format);
  p.checkpoints.directory = words.value("tree").value_or(p.checkpoints.directory);
  auto& s = p.scheduler;
  if (const auto v = words.value("kind"))
    s.kind = *v == "slurm" ? core::SchedulerKind::Slurm : core::SchedulerKind::Local;
  s.nodes.front().nodes = static_cast<std::uint32_t>(words.number("nodes", s.nodes.front().nodes));
  p.checkpoints.keep_last =
      static_cast<std::uint32_t>(words.number("keep", p.checkpoints.keep_last));
  if (const auto until = words.number("grow_at"))
    s.nodes = {{until, s.nodes.front().nodes},
               {0, static_cast<std::uint32_t>(words.number("grow_to", 1))}};
  s.spares = static_cast<std::uint32_t>(words.number("spares", s.spares));
  s.array_tasks = static_cast<std::uint32_t>(words.number("tasks", s.array_tasks));
  s.top_up_below = static_cast<std::uint32_t>(words.number("top_up_below", s.top_up_below));
  s.time_limit = words.duration("time_limit", s.time_limit);
  if (const auto name = words.value("reservation")) s.extra = {"--reservation=" + *name};
  if (const auto smaller = words.number("allowed"))
    s.nodes_allowed = {static_cast<std::uint32_t>(smaller), s.nodes.front().nodes};
  p.hang.floor = words.duration("floor", p.hang.floor);
  p.hang.ceiling = words.duration("ceiling", p.hang.ceiling);
  p.hang.startup = words.duration("startup", p.hang.startup);
  p.hang.evaluation = words.duration("evaluation", p.hang.evaluation);
  p.hang.checkpoint = words.duration("checkpoint", p.hang.checkpoint);
  auto& r = p.recover;
  r.restarts_total = static_cast<std::uint32_t>(words.number("restarts", r.restarts_total));
  r.restarts_without_progress =
      static_cast<std::uint32_t>(words.number("without_progress", r.restarts_without_progress));
  if (const auto gpus = words.number("gpus"))
    policy_.scheduler.gpus_per_node = static_cast<std::uint32_t>(gpus);
  policy_.budget.gpu_hours = words.real("gpu_hours", policy_.budget.gpu_hours);
  policy_.goodput.peak_tflops = words.real("peak_tflops");
  policy_.goodput.sample_flops = words.real("sample_flops");
  policy_.goodput.co2_g_per_kwh = words.real("co2");
  const std::string interval = words.value("interval").value_or("");
  policy_.checkpoints.interval_auto = interval == "auto";
  if (const auto length = parse_duration(interval)) policy_.checkpoints.interval = *length;
  policy_.checkpoints.interval_floor =
      words.duration("interval_floor", policy_.checkpoints.interval_floor);
  r.exclude_for = words.duration("exclude_for", r.exclude_for);
  if (const auto v = words.value("drain")) r.exclude_drain = *v == "yes";
  if (const auto v = words.value("preflight")) r.preflight = *v == "yes";
  r.refill = words.duration("refill", r.refill);
  if (const auto v = words.value("rollback")) r.rollback_enabled = *v == "on";
  r.rollback_lr_scale = words.real("lr_scale", r.rollback_lr_scale);
  r.rollback_at_most = static_cast<std::uint32_t>(words.number("at_most", r.rollback_at_most));
  if (const auto v = words.value("in_allocation")) r.in_allocation = *v == "yes";
  if (const auto name = words.value("after")) p.after = {follower_of(words, *name)};
  if (const auto v = words.value("on_scancel"))
    r.on_scancel = *v == "restart" ? core::OnScancel::Restart : core::OnScancel::Hold;
  return ok();
}

Status Script::do_add(Words& words) {
  return feed(core::RunAdded{policy_, words.empty() ? "alice" : words.next()});
}

// daemon stops | daemon restart away 300s [epoch 2] [clean]
Status Script::do_daemon(Words& words) {
  if (words.take("stops")) return feed(core::DaemonStopping{}, true);
  if (!words.take("restart")) return fail("daemon stops, or daemon restart away DURATION");
  core::DaemonStarted started;
  started.build = "build-1";
  started.away = words.duration("away", 1s);
  started.epoch = Epoch{static_cast<std::uint32_t>(words.number("epoch", 1))};
  started.clean = words.flag("clean");
  world_.kill();
  world_.drop_effects(false);
  if (const Status begun = world_.start(started); !begun)
    said_ += "daemon: " + begun.error().message() + "\n";
  return ok();
}

// week 2026-05-08T09:00:00Z | week asked alice
Status Script::do_week(Words& words) {
  if (const auto by = words.value("asked")) return feed(core::WeeklyDue{world_.clock.wall(), *by});
  STOKER_TRY(due, parse_rfc3339(words.next()));
  return feed(core::WeeklyDue{due, ""});
}

Status Script::do_effects(Words& words) {  // kill -9 between the journal and the effects
  world_.drop_effects(words.next() == "lost");
  return ok();
}

Status Script::do_quiet(Words&) {
  return ok();
}

Status Script::do_nodes(Words& words) {
  const auto nodes = expand_hostlist(words.next());
  if (!nodes) return fail(nodes.error());
  const bool up = words.next() == "up";
  const std::string reason = words.quoted();
  for (const NodeName& node : *nodes)
    STOKER_TRY_STATUS(feed(core::NodeSeen{node, up, up ? "IDLE" : "DOWN", reason}, true));
  return ok();
}

// calendar n[01-10] [max-array 4] [reserved maint n[05-10] from 5h until 8h]…: times count from now
Status Script::do_calendar(Words& words) {
  core::CalendarSeen seen;
  seen.partitions.push_back({"main", true, words.next()});
  if (words.take("max-array"))
    seen.max_array = static_cast<std::uint32_t>(std::stoul(words.next()));
  while (words.take("reserved")) {
    core::Reservation r{words.next(), words.next(), {}, {}};
    if (!words.take("from")) return fail("a reservation begins: from 5h", r.name);
    STOKER_TRY(from, parse_duration(words.next()));
    if (!words.take("until")) return fail("a reservation ends: until 8h", r.name);
    STOKER_TRY(until, parse_duration(words.next()));
    r.from = world_.clock.wall() + from;
    r.until = world_.clock.wall() + until;
    seen.reservations.push_back(std::move(r));
  }
  return feed(std::move(seen), true);
}

// job 1_1 RUNNING [nodes n[01-03]] [ends 1h] [exit 1] [signal 9] [by 1000] [restart 1] [reason R]
Status Script::do_job(Words& words) {
  core::JobSeen seen;
  seen.job = parse_job(words.next());
  const std::string word = words.next();
  const auto state = enum_from<core::JobState>(word);
  if (!state) return fail(fmt::format("unknown job state \"{}\"", word));
  seen.state = *state;
  seen.token = Token(words.value("token").value_or(world_.scheduler.token_of(seen.job.job).text));
  seen.nodes = words.nodes("nodes");
  if (const auto ends = words.value("ends"))
    seen.ends_at = world_.clock.wall() + *parse_duration(*ends);
  seen.exit_code = static_cast<int>(words.number("exit"));
  seen.signal = static_cast<int>(words.number("signal"));
  seen.restart = static_cast<std::uint32_t>(words.number("restart"));
  seen.reason = words.value("reason").value_or("");
  if (const auto by = words.value("by")) {
    seen.cancelled_by_us = *by == "us";
    seen.cancelled_by_uid = seen.cancelled_by_us ? 0u : static_cast<std::uint32_t>(std::stoul(*by));
  }
  return feed(std::move(seen));
}

// rival "job 4711 of bob (RUNNING): it has the run's name" | gone
Status Script::do_rival(Words& words) {
  core::RivalsSeen seen;
  if (!words.take("gone")) seen.jobs.push_back(words.quoted());
  return feed(std::move(seen));
}

// follower ended 4 [exit 3] [signal 9] [ordered] ["its last line"]: the job, and what its command
// left; follower missing 4: it has left nothing
Status Script::do_follower(Words& words) {
  core::FollowerEnded ended;
  ended.missing = words.take("missing");
  if (!ended.missing && !words.take("ended")) return fail("follower ended|missing JOB");
  ended.token = world_.scheduler.token_of(parse_job(words.next()).job);
  ended.code = static_cast<int>(words.number("exit"));
  ended.signal = static_cast<int>(words.number("signal"));
  ended.ordered = words.flag("ordered");
  ended.seconds = 60;
  ended.words = words.quoted();
  return feed(std::move(ended));
}

// reload after none: RUN.yaml was changed
Status Script::do_reload(Words& words) {
  if (words.value("after")) policy_.after.clear();
  return feed(core::PolicyChanged{policy_, "alice"});
}

// clock forward 2h
Status Script::do_clock(Words& words) {
  SimClock& clock = world_.clock;
  clock.start_at(clock.wall() - (clock.now() - Instant{}) + words.duration("forward"));
  return ok();
}

// gone 1 "why"
Status Script::do_gone(Words& words) {
  const JobId job = parse_job(words.next());
  return feed(core::JobGone{world_.scheduler.token_of(job.job), job, words.quoted()});
}

// scheduler blind "why" | sees | drains refused | cancels refused | next submit
// refused|starved|unknown-done|unknown-lost
Status Script::do_scheduler(Words& words) {
  if (words.take("blind")) {
    world_.scheduler.set_blind(true);
    return feed(core::SchedulerBlind{words.quoted()}, true);
  }
  if (words.take("sees")) {
    world_.scheduler.set_blind(false);
    return feed(core::SchedulerSees{}, true);
  }
  if (words.take("drains")) {
    world_.scheduler.refuse_drains(words.take("refused"));
    return ok();
  }
  if (words.take("cancels")) {
    world_.scheduler.refuse_cancels(words.next() == "refused");
    return ok();
  }
  if (words.take("probed")) {
    using Probed = SimScheduler::Probed;
    const std::map<std::string, Probed> words_of{{"runs", Probed::Runs},
                                                 {"empty", Probed::Empty},
                                                 {"batch-left", Probed::BatchLeft},
                                                 {"mute", Probed::Mute},
                                                 {"unknown", Probed::Unknown}};
    const auto found = words_of.find(words.next());
    if (found == words_of.end()) return fail("scheduler probed runs|empty|batch-left|mute|unknown");
    world_.scheduler.set_probed(found->second);
    return ok();
  }
  if (!words.take("next") || !words.take("submit")) return fail("scheduler blind|sees|next submit");
  const std::string how = words.next();
  if (how == "refused") world_.scheduler.next_submit(SimScheduler::NextSubmit::Refused);
  if (how == "starved") world_.scheduler.next_submit(SimScheduler::NextSubmit::Starved);
  if (how == "unknown-done") world_.scheduler.next_submit(SimScheduler::NextSubmit::LostAnswer);
  if (how == "unknown-lost") world_.scheduler.next_submit(SimScheduler::NextSubmit::LostRequest);
  return ok();
}

namespace {

core::OperatorAsked parse_asked(Words& words) {
  core::OperatorAsked asked;
  asked.by = words.next();
  asked.verb = words.next();
  asked.reason = words.quoted();
  if (asked.verb == "exclude" || asked.verb == "include")
    asked.nodes = expand_hostlist(words.next()).value_or(std::vector<NodeName>{});
  while (words.peek().starts_with("--")) {
    const std::string flag = words.next().substr(2);
    const std::size_t equals = flag.find('=');
    asked.arguments[flag.substr(0, equals)] =
        equals == std::string::npos ? "true" : flag.substr(equals + 1);
  }
  return asked;
}

}  // namespace

Status Script::do_operator(Words& words) {
  core::OperatorAsked asked = parse_asked(words);
  asked.via = "socket";
  return feed(std::move(asked));
}

Status Script::do_switch(Words& words) {
  if (words.take("refused")) return feed(core::SwitchRefused{words.next(), words.quoted()});
  core::OperatorAsked asked = parse_asked(words);
  asked.via = "switch file";
  world_.files.content["/runs/demo/switch/" + asked.verb] = "{}";
  return feed(std::move(asked));
}

Status Script::do_disk(Words& words) {
  core::DiskLow disk;
  disk.path = words.next();
  if (words.take("full"))
    return feed(
        core::DiskFull{disk.path, disk.path + "/status.json: No space left on device", true});
  if (words.take("room")) return feed(core::DiskFull{disk.path, "", false});
  disk.low = words.next() == "low";
  disk.free_share = std::stod(words.next()) / 100;
  return feed(std::move(disk), true);
}

// folder "the switch folder /runs/demo/switch" silent 20s [orders|own] | folder "…" answers
Status Script::do_folder(Words& words) {
  core::FolderSilent folder;
  folder.what = words.quoted();
  folder.silent = !words.take("answers");
  folder.lasts = words.duration("silent", 0s);
  folder.orders = words.flag("orders");
  folder.own = words.flag("own");
  return feed(std::move(folder));
}

Status Script::do_journal(Words& words) {
  world_.journal.set_full(words.next() == "full");
  return ok();
}

Status Script::do_files(Words& words) {
  if (words.take("hold")) {
    const std::string path = words.next();
    world_.files.content[path] = words.quoted();
    return ok();
  }
  world_.files.refuse(words.take("work") ? "" : words.value("refuse").value_or(""));
  return ok();
}

// finish-file there|gone
Status Script::do_finish_file(Words& words) {
  return feed(
      core::FinishFileSeen{"/runs/demo/" + policy_.train.finished.file, words.next() == "there"});
}

Status Script::do_quarantine(Words& words) {
  return feed(core::Quarantined{words.quoted(), "00c0ffee"});
}

}  // namespace stoker::sim
