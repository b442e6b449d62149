// Starting ranks, their ends, and the samples of their progress.
#include "worker/agent/node/node.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/machine_short.hpp"
#include "common/os/private_folder.hpp"
#include "common/overloaded.hpp"
#include "wire/environment.hpp"
#include "worker/agent/aside.hpp"
#include "worker/agent/hidden_values.hpp"
#include "worker/agent/node/node_health.hpp"
#include "worker/agent/rank/guardian.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kSampleEvery = 150ms;
constexpr Duration kSampleEarly = 20ms;  // until all ranks iterate: a restart is reported at once
constexpr Duration kEarly = 60s;
constexpr std::uint32_t kSharedRankLogs = 256;  // ranks beyond keep their log on their node

}  // namespace

Node::Node(NodeWiring wiring, wire::Start start)
    : wiring_(std::move(wiring)), start_(std::move(start)), created_(monotonic_now()) {
  generation_directory_ =
      wiring_.context.run_directory + "/" + wire::generation_name(start_.generation);
  base_ = base_environment(os::current_environment(), wiring_.context, start_,
                           start_.orders.ranks_per_node);
  if (auto reader = diagnose::ProgressReader::make(start_.orders.progress))
    progress_ = std::move(*reader);
  else
    notice(reader.error().message() + "; progress is read from known log lines only");
  sample_timer_ = wiring_.loop.after(kSampleEvery, [this] { sample(); });
  watch_health();
}

// In a thread: opening NVML can take seconds.
void Node::watch_health() {
  HealthSink sink = [this, alive = alive_, &loop = wiring_.loop](wire::AgentBody body) {
    loop.post([this, alive, body = std::move(body)] {
      if (*alive) wiring_.report(NodeEvent{body});
    });
  };
  run_aside([this, alive = alive_, &loop = wiring_.loop, node = wiring_.context.node,
             stop = health_stop_, sink] {
    const GpuWatch watch = watch_gpus(node, stop, sink);
    const bool kernel = watch_kernel_log(node, stop, sink, watch.gpus);
    loop.post([this, alive, watts = watch.watts] {
      if (*alive) gpu_watts_ = watts;
    });
    sink(health_sources(node, kernel, watch.gpus));
  });
}

Node::~Node() {
  *alive_ = false;
  *health_stop_ = true;
  for (Loop::Timer* timer : {&sample_timer_, &term_timer_, &kill_timer_, &waiting_timer_})
    wiring_.loop.cancel(*timer);
  for (const auto& member : ranks_)
    if (!member->page_path.empty()) ::unlink(member->page_path.c_str());
  if (learned_list_ && !learned_list_->empty()) ::unlink(learned_list_->c_str());
}

void Node::notice(std::string text) {
  wiring_.report(NodeEvent{wire::Notice{wiring_.context.node, std::move(text)}});
}

void Node::perform(const NodeCommand& command) {
  std::visit(
      Overloaded{[this](const ChoosePort& c) { choose_port(c); },
                 [this](const StartRanks& c) { this->start(c); },
                 [this](const StopRanks& c) { stop(c); }, [this](const SaveNow& c) { save(c); },
                 [this](const TakeStacks& c) { take_stacks(c); },
                 [this](const BenchNode& c) { bench(c); },
                 [this](const ListSnapshots&) { list_snapshots(); }, [](const Welcome&) {},
                 [](const LeaveWith&) {}, [](const Ping&) {}},
      command);
}

void Node::choose_port(const ChoosePort& command) {
  PortChosen answer{command.attempt, 0, ""};
  auto held = hold_free_port();
  if (held) {
    answer.port = held->port;
    held_port_ = std::move(held->socket);
    port_lock_ = std::move(held->lock);
  } else {
    answer.error = held.error().message();
  }
  wiring_.report(std::move(answer));
}

void Node::start(const StartRanks& command) {
  if (!ranks_.empty()) {
    notice("start refused: processes of the attempt before are still there");
    return;
  }
  attempt_ = command.attempt;
  exits_.clear();
  stuck_.clear();
  leaving_ = false;
  started_ = monotonic_now();
  wiring_.loop.cancel(sample_timer_);
  sample_timer_ = wiring_.loop.after(kSampleEarly, [this] { sample(); });
  held_port_.reset();  // rank 0 binds it in a moment; the lock stays
  for (std::uint32_t i = 0; i < command.ranks_per_node; ++i) {
    auto member = std::make_unique<Member>();
    member->local = i;
    ranks_.push_back(std::move(member));
  }
  waiting_ = command;
  start_waiting();
  watch_checkpoints(command);
  wiring_.loop.post([this, alive = alive_] {
    if (*alive) on_clear();
  });
}

// Those that have not begun. What other users have used up comes back: that is no failure.
void Node::start_waiting() {
  constexpr Duration kAgain = 1s;
  bool left = false;
  for (const auto& member : ranks_) {
    if (member->process || member->gone) continue;
    const auto started = start_member(*member, *waiting_);
    if (started) continue;
    if (os::is_machine_short(started.error())) {
      left = true;
      member->slot->wait(monotonic_now());
      report_short(started.error().message());
      continue;
    }
    notice("cannot start a rank: " + started.error().message());
    member->clear = true;
    on_exit(*member, {.code = 127, .signal = 0, .core = false});
  }
  if (left)
    waiting_timer_ = wiring_.loop.after(kAgain, [this] { start_waiting(); });
  else
    waiting_.reset();
}

// Once a minute.
void Node::report_short(const std::string& what) {
  constexpr Duration kReportAgain = 1min;
  const Instant now = monotonic_now();
  if (short_told_ && now - *short_told_ < kReportAgain) return;
  short_told_ = now;
  wiring_.report(NodeEvent{wire::MachineShort{wiring_.context.node, what, kReportAgain + 10s}});
}

// They are not wanted any more.
void Node::drop_waiting() {
  if (!waiting_) return;
  waiting_.reset();
  wiring_.loop.cancel(waiting_timer_);
  for (const auto& member : ranks_) {
    if (member->process || member->gone) continue;
    member->clear = true;
    on_exit(*member, {.code = 0, .signal = SIGTERM, .core = false});
  }
  wiring_.loop.post([this, alive = alive_] {
    if (*alive) on_clear();
  });
}

// Of a training whose format is not ours: rank 0 speaks for them.
void Node::watch_checkpoints(const StartRanks& command) {
  const wire::Orders& orders = start_.orders;
  const std::string& program = orders.command.front();
  if (command.group_rank != 0 || program.substr(program.rfind('/') + 1) == "stoker-train") return;
  const std::string& folder = orders.checkpoint_directory;
  checkpoint_watch_ = std::make_unique<CheckpointWatch>(
      wiring_.loop, folder.starts_with("/") ? folder : wiring_.context.run_directory + "/" + folder,
      [this](Iteration saved) {
        if (!ranks_.empty()) ranks_.front()->slot->note_checkpoint(saved);
      });
}

// Of another training's ranks nothing is known to copy.
std::string Node::slots_of(std::uint32_t local) {
  if (start_.orders.checkpoint_format != "stoker") return "";
  const auto slots = memory_.slots_of(local);
  if (slots) return *slots;
  if (!memory_failed_) notice("no snapshots in memory: " + slots.error().message());
  memory_failed_ = true;
  return "";
}

// Reads the content of all, which may take seconds.
void Node::list_snapshots() {
  run_aside([this, slots = memory_.slots(), generation = start_.generation, alive = alive_,
             &loop = wiring_.loop] {
    auto held = NodeMemory::look(slots, generation);
    loop.post([this, alive, held = std::move(held)] {
      if (*alive) wiring_.report(held);
    });
  });
}

std::string Node::rank_log(const Rank& rank) {
  if (rank.value < kSharedRankLogs)
    return fmt::format("{}/ranks/{}.log", generation_directory_, rank.value);
  if (!far_logs_) make_far_logs();
  return far_logs_->empty() ? "" : fmt::format("{}/{}.log", *far_logs_, rank.value);
}

// Others write /tmp too: a new folder that only we enter, reached by its descriptor, which stays
// open until the agent ends.
void Node::make_far_logs() {
  auto made = os::make_private_folder(
      fmt::format("/tmp/stoker-{}-{}.", start_.run.text, wire::generation_name(start_.generation)));
  if (!made) {
    far_logs_ = "";
    return notice(fmt::format("logs of ranks from {} on are not kept, only main.log: {}",
                              kSharedRankLogs, made.error().message()));
  }
  far_logs_ = fmt::format("/proc/self/fd/{}", made->fd.release());
  notice(fmt::format("logs of ranks from {} on: {} on {} ({})", kSharedRankLogs, made->path,
                     wiring_.context.node.text, os::host_name()));
}

std::unique_ptr<RankSlot> Node::make_slot(const StartRanks& command, std::uint32_t local) {
  const Rank rank(command.group_rank * command.ranks_per_node + local);
  const std::string path = rank_log(rank);
  SlotSinks sinks;
  sinks.raw = [this, path](std::string_view bytes) {
    if (!path.empty()) wiring_.logs.append(path, bytes);
  };
  sinks.merged = wiring_.merged;
  sinks.event = [this](wire::AgentBody body) { wiring_.report(NodeEvent{std::move(body)}); };
  return std::make_unique<RankSlot>(wiring_.context.node, rank, command.attempt, progress_,
                                    std::move(sinks));
}

RankProcess::Events Node::member_events(Member& member) {
  Member* m = &member;
  RankProcess::Events events;
  events.output = [m](int stream, std::string_view bytes) {
    m->slot->feed(stream, bytes, monotonic_now());
  };
  events.exited = [this, m](const os::ExitStatus& status) { on_exit(*m, status); };
  events.waits = [this, m](const std::string& what) {
    m->slot->wait(monotonic_now());
    report_short(what);
  };
  events.clear = [this, m](const std::string& stuck) {
    m->clear = true;
    if (!stuck.empty()) stuck_ += (stuck_.empty() ? "" : ", ") + stuck;
    wiring_.loop.post([this, alive = alive_] {  // not inside the process's own callback
      if (*alive) on_clear();
    });
  };
  return events;
}

Status Node::start_member(Member& member, const StartRanks& command) {
  if (member.slot) return start_process(member, command);
  member.slot = make_slot(command, member.local);
  member.page_path = fmt::format("/dev/shm/{}{}.{}", shm_prefix(wiring_.watchmen.mark),
                                 command.attempt.value, member.slot->rank.value);
  auto page = wire::HeartbeatPage::create(member.page_path);
  if (!page) {
    member.page_path =
        fmt::format("{}/ranks/{}.heartbeat", generation_directory_, member.slot->rank.value);
    page = wire::HeartbeatPage::create(member.page_path);
  }
  if (page)
    member.slot->attach_page(std::move(*page));
  else
    member.page_path.clear();
  return start_process(member, command);
}

Status Node::start_process(Member& member, const StartRanks& command) {
  Environment place =
      rank_environment(start_, command, member.local, {member.page_path, slots_of(member.local)});
  place[wire::env::kEventWord] = member.slot->event_word();
  if (auto standby = take_standby()) {
    standby->replace_events(member_events(member));
    if (standby->give_order({1, place})) {
      member.process = std::move(standby);
      return ok();
    }
  }
  RankPlan plan;
  plan.command = start_.orders.command;
  plan.environment = base_;
  for (const auto& [key, value] : place) plan.environment[key] = value;
  if (!wiring_.context.standalone) plan.working_directory = wiring_.context.run_directory;
  if (member.local == 0) learn_from(plan);
  STOKER_TRY(process,
             RankProcess::start(wiring_.loop, wiring_.watchmen, plan, member_events(member)));
  member.process = std::move(process);
  return ok();
}

void Node::on_exit(Member& member, const os::ExitStatus& status) {
  if (member.gone) return;
  member.gone = true;
  member.slot->finish(monotonic_now());
  if (checkpoint_watch_ && &member == ranks_.front().get() && status.code == 0 &&
      status.signal == 0)
    member.slot->note_last_checkpoint(
        checkpoint_watch_->last_look().value_or(member.slot->sample().checkpoint));
  (void)member.slot->look(monotonic_now());
  RankGone gone;
  gone.exit.attempt = attempt_;
  gone.exit.node = wiring_.context.node;
  gone.exit.rank = member.slot->rank;
  gone.exit.code = status.code;
  gone.exit.signal = status.signal;
  gone.exit.core = status.core;
  gone.exit.expected = leaving_;
  gone.exit.last_lines = without_values(member.slot->last_lines(), start_.orders.environment);
  exits_.push_back(gone);
  send_beat(monotonic_now());  // how far it came, in front of its end
  wiring_.report(std::move(gone));
}

void Node::on_clear() {
  if (ranks_.empty()) return;
  for (const auto& member : ranks_)
    if (!member->clear) return;
  for (const auto& member : ranks_)
    if (!member->page_path.empty()) ::unlink(member->page_path.c_str());
  wiring_.loop.cancel(term_timer_);
  wiring_.loop.cancel(kill_timer_);
  port_lock_.reset();
  checkpoint_watch_.reset();
  ranks_.clear();
  wiring_.report(NodeClear{attempt_, stuck_});
}

void Node::report_again() {
  for (const RankGone& gone : exits_) wiring_.report(gone);
  if (ranks_.empty() && attempt_.value > 0) wiring_.report(NodeClear{attempt_, stuck_});
}

void Node::sample() {
  if (is_short_of_threads()) report_short("no thread can be made");
  const bool early = std::any_of(ranks_.begin(), ranks_.end(), [](const auto& member) {
    const RankSample& s = member->slot->sample();
    return !member->gone && s.phase < wire::Phase::Iteration;
  });
  const bool young = early && monotonic_now() - started_ < kEarly;
  sample_timer_ = wiring_.loop.after(young ? kSampleEarly : kSampleEvery, [this] { sample(); });
  const Instant now = monotonic_now();
  bool edge = false;
  for (const auto& member : ranks_)
    if (!member->gone && member->slot->look(now)) edge = true;
  if (edge || now - beat_at_ >= wire::beat_every(start_.orders.hang_floor)) send_beat(now);
  tend_standbys();
}

void Node::send_beat(Instant now) {
  beat_at_ = now;
  NodeBeat beat;
  beat.attempt = attempt_;
  for (const auto& member : ranks_) beat.ranks.push_back(member->slot->take_sample(now));
  beat.free_memory_bytes = free_memory_bytes();
  beat.free_shm_bytes = free_shm_bytes();
  if (gpu_watts_) beat.gpu_watts = *gpu_watts_;
  for (const auto& standby : standbys_)
    if (standby->standby_ready()) ++beat.standbys;
  beat.snapshots = memory_.complete();
  wiring_.report(std::move(beat));
}

}  // namespace stoker::agent
