// One attempt: choose the checkpoint and the nodes, agree on a port, start, and what follows from
// its end.
#include <algorithm>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>

#include "worker/agent/ending.hpp"
#include "worker/agent/lead.hpp"

namespace stoker::agent {
namespace {

// Exits that a training chooses (cli.md): 0 finished, 10 duration or signal, 11 kill switch, 12
// exit iteration or samples.
bool is_planned(int code) {
  return code == 0 || (code >= 10 && code <= 12);
}
bool is_failure(const wire::RankExited& exit) {
  return exit.signal != 0 || !is_planned(exit.code);
}
// The last line of what the rank that failed first has said.
std::string last_words(const std::optional<wire::RankExited>& exit) {
  constexpr std::size_t kMost = 300;
  if (!exit) return {};
  std::string_view text = exit->last_lines;
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  const auto begin = text.rfind('\n');
  if (begin != std::string_view::npos) text.remove_prefix(begin + 1);
  return text.empty()
             ? std::string()
             : fmt::format("; rank {} said last: {}", exit->rank.value, text.substr(0, kMost));
}

int code_of(const wire::RankExited& exit) {
  return exit.signal != 0 ? 128 + exit.signal : exit.code;
}

std::string planned_why(int code) {
  switch (code) {
    case 0: return "finished";
    case 10: return "left as planned: saved for its duration or a signal (exit 10)";
    case 11: return "left as planned: kill switch (exit 11)";
    default: return "left as planned: its last iteration or sample (exit 12)";
  }
}

}  // namespace

std::vector<NodeName> Lead::eligible_nodes() const {
  std::vector<NodeName> nodes;
  const auto listed = [](const std::vector<NodeName>& list, const NodeName& node) {
    return std::find(list.begin(), list.end(), node) != list.end();
  };
  std::vector<NodeName> avoided;  // better with one of them than not at all
  for (const NodeName& node : start_.nodes) {
    const Follower& f = followers_.at(node);
    if (!f.joined || f.told_lost || !reachable(node) || listed(done_.exclude, node)) continue;
    const bool avoid = listed(start_.orders.exclude, node) || poor_.contains(node);
    (avoid ? avoided : nodes).push_back(node);
  }
  for (const NodeName& node : avoided)
    if (nodes.size() < start_.orders.nodes) nodes.push_back(node);
  return nodes;
}

void Lead::begin_attempt(const std::string& why) {
  loop_.cancel(orphan_timer_);
  restart_why_.reset();
  attempt_why_ = why;
  if (leaving_why_) return leave_as_asked();
  if (const auto end = stopped_by_switch()) return conclude(*end, end->why, {});
  if (stuck_)
    return leave(1,
                 "a process in uninterruptible sleep cannot be killed: no attempt may start "
                 "beside it; the job ends so that the next one starts elsewhere");
  stage_ = Stage::Choosing;
  if (eligible_nodes().size() < start_.orders.nodes)
    return leave(1, fmt::format("only {} of the {} nodes that the run needs are left in the "
                                "allocation",
                                eligible_nodes().size(), start_.orders.nodes));
  if (begin_bench()) return;
  if (chosen_) return ask_port();
  choose();
}

// In a thread: digests of a large checkpoint take a while and the file system may hang.
void Lead::choose() {
  if (choosing_) return;
  if (start_.orders.checkpoint_format != "stoker") {
    on_chosen({});
    return;
  }
  choosing_ = true;
  std::thread([this, alive = alive_, &loop = loop_, lineage = start_.lineage,
               verify = start_.orders.verify_checkpoints,
               directory = checkpoint_directory(context_.run_directory, start_.orders)] {
    const ChosenCheckpoint chosen = choose_checkpoint(directory, lineage, verify);
    loop.post([this, alive, chosen] {
      if (*alive) on_chosen(chosen);
    });
  }).detach();
}

void Lead::on_chosen(const ChosenCheckpoint& chosen) {
  choosing_ = false;
  if (!chosen.error.empty()) return leave(1, "cannot read the checkpoints: " + chosen.error);
  chosen_ = chosen;
  if (stage_ == Stage::Choosing) ask_port();
}

void Lead::ask_port() {
  for (const auto& damaged : chosen_->damaged)
    if (damaged_told_.insert(damaged.checkpoint + damaged.why).second) tell(damaged);
  attempt_ = attempt_.next();
  attempt_nodes_ = eligible_nodes();
  attempt_nodes_.resize(start_.orders.nodes);
  stage_ = Stage::AskingPort;
  for (auto& [node, follower] : followers_) follower.samples.ranks.clear();  // of the one before
  send(attempt_nodes_.front(), ChoosePort{attempt_});
}

void Lead::make_pruner() {
  const std::string directory = checkpoint_directory(context_.run_directory, start_.orders);
  const auto told = [this](wire::AgentBody body) { tell(std::move(body)); };
  archiver_ = std::make_unique<Archiver>(Archiver::Wiring{loop_, context_.run_directory, directory,
                                                          told, [this] { pruner_->saved(); }},
                                         start_);
  pruner_ = std::make_unique<Pruner>(
      Pruner::Wiring{
          loop_, context_.run_directory, directory, [this] { return checkpoints_in_use(); },
          [this](const wire::CheckpointId& id) { return archiver_->must_stay(id); }, told},
      start_);
  archiver_->look();
}

// What this attempt came from (a rank may still read it) and what the next one will.
std::set<wire::CheckpointId> Lead::checkpoints_in_use() const {
  std::set<wire::CheckpointId> used;
  for (const std::string& name : {loaded_, chosen_ ? chosen_->name : std::string()})
    if (const auto id = wire::parse_checkpoint_name(name)) used.insert(*id);
  return used;
}

std::string Lead::load_path() const {
  const std::string folder = checkpoint_directory(context_.run_directory, start_.orders);
  const std::string& format = start_.orders.checkpoint_format;
  if (format == "stoker") return chosen_->name.empty() ? "" : folder + "/" + chosen_->name;
  const auto iteration = start_.orders.resume.iteration.value;
  if (format == "megatron") return fmt::format("{}/iter_{:07}", folder, iteration);
  if (format == "deepspeed") return fmt::format("{}/global_step{}", folder, iteration);
  return folder;
}

void Lead::start_ranks(std::uint32_t port) {
  stage_ = Stage::Running;
  attempt_at_ = monotonic_now();
  exits_.clear();
  first_failure_.reset();
  failed_ = false;
  told_phase_.reset();
  slowest_iteration_ms_ = 0;
  last_beat_ = {};
  clear_kill_switch(kill_switch_of(context_, start_.orders));
  StartRanks order;
  order.attempt = attempt_;
  order.groups = static_cast<std::uint32_t>(attempt_nodes_.size());
  order.ranks_per_node = start_.orders.ranks_per_node;
  order.master_address = context_.address_of(attempt_nodes_.front());
  order.master_port = port;
  order.restarts = restarts_++;
  const bool rollback = start_.orders.resume.mode == wire::ResumeMode::Exact && restarts_ == 1;
  order.set_load = start_.orders.checkpoint_format == "stoker" || rollback;
  if (order.set_load) order.load = load_path();
  bool warm = true;
  for (const NodeName& node : attempt_nodes_) {
    Follower& f = followers_[node];
    warm = warm && f.standbys >= order.ranks_per_node;
    f.clear = false;
    f.samples.ranks.clear();
  }
  wire::AttemptStarted event;
  event.attempt = attempt_;
  event.nodes = attempt_nodes_;
  event.world_size = order.groups * order.ranks_per_node;
  event.load = chosen_->name;
  event.iteration = chosen_->iteration;
  event.standby = warm;
  event.why = attempt_why_;
  tell(std::move(event));
  for (const NodeName& node : attempt_nodes_) {
    send(node, order);
    ++order.group_rank;
  }
  if (chosen_->iteration > previous_load_) own_restarts_ = 0;  // progress refills the budget
  previous_load_ = chosen_->iteration;
  loaded_ = chosen_->name;
  chosen_.reset();
  fold_and_tell(true);
}

void Lead::stop_all(StopHow how) {
  for (const NodeName& node : attempt_nodes_) send(node, StopRanks{attempt_, how});
}

void Lead::on_rank_gone(const RankGone& gone) {
  const wire::RankExited& exit = gone.exit;
  if (exit.attempt != attempt_ || !exits_.emplace(exit.rank, exit).second) return;
  if (exits_.size() == 1) fold_and_tell(false);  // how far the attempt came, in front of its end
  tell(exit);
  if (exit.expected || !is_failure(exit)) return;
  if (!first_failure_) first_failure_ = exit;
  if (failed_) return;
  failed_ = true;
  stop_all(StopHow::Crash);  // an attempt with a dead rank is over; its peers would wait for it
}

void Lead::check_end() {
  if (stage_ != Stage::Running) return;
  const bool clear = std::all_of(attempt_nodes_.begin(), attempt_nodes_.end(),
                                 [this](const NodeName& n) { return followers_.at(n).clear; });
  if (clear) attempt_ended();
}

void Lead::attempt_ended() {
  wire::AttemptEnded event;
  event.attempt = attempt_;
  const std::size_t world = attempt_nodes_.size() * start_.orders.ranks_per_node;
  event.all_zero = exits_.size() == world;
  int planned = 0;
  for (const auto& [rank, exit] : exits_) {
    event.all_zero = event.all_zero && code_of(exit) == 0;
    if (!is_failure(exit)) planned = std::max(planned, exit.code);
  }
  const bool all_planned =
      exits_.size() == world && std::all_of(exits_.begin(), exits_.end(),
                                            [](const auto& e) { return !is_failure(e.second); });
  event.worst_code = planned;
  if (first_failure_) {
    event.worst_code = code_of(*first_failure_);
    event.first_rank = first_failure_->rank;
    event.first_node = first_failure_->node;
  } else if (failed_) {
    event.worst_code = 1;  // a node was lost
  }
  event.told = leaving_why_ || restart_why_;
  const int worst = event.worst_code;
  fold_and_tell(false);
  const auto end = end_of_run(event, all_planned ? std::optional(planned) : std::nullopt);
  stage_ = Stage::Waiting;
  attempt_nodes_.clear();
  if (end) return conclude(*end, all_planned ? planned_why(planned) : end->why, std::move(event));
  tell(std::move(event));
  // Told to restart, any command but ours may end with 0 without being finished.
  const bool again = restart_why_ && (planned != 0 || !trains_with_stoker(start_.orders));
  if (all_planned && !again) return leave(0, planned_why(planned));
  if (leaving_why_) return leave(0, *leaving_why_);
  if (restart_why_) return begin_attempt(std::string(*restart_why_));
  after_failure(worst);
}

void Lead::after_failure(int worst) {
  const int code = worst > 0 && worst < 256 ? worst : 1;
  if (!start_.orders.in_allocation)
    return leave(code, fmt::format("the ranks failed (exit {}); restarts inside the allocation "
                                   "are off{}",
                                   worst, last_words(first_failure_)));
  choose();  // meanwhile
  const Duration grace = start_.orders.orphan_grace;
  orphan_timer_ = loop_.after(grace, [this, grace, code] {
    orphan_timer_ = 0;
    if (own_restarts_ >= start_.orders.restart_budget)
      return leave(code, fmt::format("the ranks failed and all {} restarts are used up{}",
                                     start_.orders.restart_budget, last_words(first_failure_)));
    ++own_restarts_;
    begin_attempt(grace > Duration{} ? "orphaned for " + format_duration(grace)
                                     : fmt::format("restart {} of {}", own_restarts_,
                                                   start_.orders.restart_budget));
  });
}

}  // namespace stoker::agent
