// Making submissions: orders first, then the array, with a token that the queue can be searched
// for.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/hash.hpp"
#include "core/alerts/alerting.hpp"
#include "core/followers/followers.hpp"
#include "core/recover/end.hpp"
#include "core/recover/rollback.hpp"
#include "core/sentence.hpp"
#include "core/signals/detect.hpp"
#include "core/signals/training_health.hpp"
#include "core/supply/calendar.hpp"
#include "core/supply/command.hpp"
#include "core/supply/script.hpp"
#include "core/supply/supply.hpp"

namespace stoker::core::supply {
namespace {

constexpr std::size_t kTerminalKept = 12;  // old submissions, for jobs that turn up late

// Always unique: the order number never repeats within a history, and the digits differ between
// histories (epoch, wall clock), should a journal have been lost.
Token make_token(const Turn& turn, OrderNumber order) {
  const std::string seed =
      fmt::format("{}/{}/{}/{}", turn.name().text, order.value, turn.site.epoch.value,
                  turn.event.wall.time_since_epoch().count());
  return Token(fmt::format("{}-{}-{}", turn.name().text, order.value, hex32(crc32c(seed))));
}

void forget_old(RunState& run) {
  std::vector<std::pair<OrderNumber, Token>> over;
  for (const auto& [token, s] : run.jobs.supply)
    if (!s.live()) over.emplace_back(s.order, token);
  std::sort(over.begin(), over.end());
  for (std::size_t i = 0; i + kTerminalKept < over.size(); ++i)
    run.jobs.supply.erase(over[i].second);
}

// What a job is submitted without: nodes excluded, and those that a bisection would do without, as
// far as the cluster is known to have others.
std::vector<NodeName> submitted_without(const Turn& turn, std::uint32_t needed) {
  const RunState& run = turn.r();
  const NodeLedger& ledger = turn.site.ledger;
  auto nodes = avoided_nodes(turn, needed);
  const std::size_t known = known_nodes(ledger);
  const std::size_t taken = nodes.size() + size_for(turn).with_spares;
  if (run.jobs.without_exclusions || run.recovery.bisect.suspects.empty() || known <= taken)
    return nodes;
  for (const NodeName& node : bisected_out(run, known - taken))
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

// What is not deleted: what RUN.yaml says, the checkpoints on both sides of each spike, which
// people want to look at, and what a follower is still to be run on.
std::vector<std::uint64_t> pins_of(const RunState& run, bool with_followed = true) {
  std::vector<std::uint64_t> pins = run.policy.checkpoints.pin;
  const auto& known = run.health.checkpoint.known;
  if (run.health.loss.spike) {  // what a rollback would go back to, and once more
    auto before = known.lower_bound(run.health.loss.spike->onset.value);
    for (int n = 0; n < 2 && before != known.begin(); ++n) pins.push_back((--before)->first);
  }
  for (const signals::PastSpike& spike : run.health.loss.past) {
    const auto after = known.lower_bound(spike.end.value);
    auto before = known.lower_bound(spike.onset.value);
    if (after != known.end()) pins.push_back(after->first);
    if (before != known.begin()) pins.push_back((--before)->first);
  }
  if (with_followed)
    for (const std::uint64_t iteration : followers::pins(run)) pins.push_back(iteration);
  std::sort(pins.begin(), pins.end());
  pins.erase(std::unique(pins.begin(), pins.end()), pins.end());
  return pins;
}

// As RUN.yaml says, as far as the cluster has arrays of that length: their numbers begin at 1.
std::uint32_t tasks_of_an_array(Turn& turn) {
  const std::uint32_t wanted = std::max(1u, turn.r().policy.scheduler.array_tasks);
  const auto& calendar = turn.site.calendar;
  if (!calendar || !calendar->max_array || wanted == 1) return wanted;
  const std::uint32_t most = std::max(2u, *calendar->max_array) - 1;
  if (wanted > most)
    turn.say(fmt::format("an array of {} tasks is longer than MaxArraySize allows: {} at once",
                         wanted, most));
  return std::min(wanted, most);
}

Submission& add_submission(Turn& turn, const std::string& dependency) {
  RunState& run = turn.r();
  forget_old(run);
  const SchedulerPolicy& policy = run.policy.scheduler;
  const Grant grant = grant_of_next(turn);
  Submit submit;
  submit.token = make_token(turn, run.asked.order);
  submit.order = run.asked.order;
  submit.array_tasks = tasks_of_an_array(turn);
  submit.nodes = grant.size.with_spares;
  submit.time_limit = grant.limit;
  if (grant.limit < policy.time_limit) {
    submit.array_tasks = 1;  // the next one has other limits
    turn.say(
        fmt::format("for {} only: nodes are reserved after that", format_duration(grant.limit)));
  }
  // Its last minutes are not worth a start.
  if (turn.site.calendar && run.conditions.reservation_seen &&
      all_over(*turn.site.calendar, policy, turn.event.wall + worth_a_start(run.policy))) {
    submit.unreserved = true;
    turn.say(fmt::format("without the reservation {}: it is over, or nearly",
                         fmt::join(own_reservations(policy), ",")));
  }
  submit.exclude = submitted_without(turn, grant.size.active);
  if (run.asked.order.value == 1) submit.begin = policy.begin;
  submit.dependency = dependency;

  Submission s;
  s.token = submit.token;
  s.order = submit.order;
  s.array_tasks = submit.array_tasks;
  s.nodes = submit.nodes;
  s.planned = planned_nodes(run);
  s.exclude = submit.exclude;
  s.intended_at = turn.now();
  s.time_limit = submit.time_limit;
  s.unreserved = submit.unreserved;
  if (!has_agents(run.policy) && !run.policy.train.kill_switch.empty())
    turn.act(SetKillSwitch{run.policy.train.kill_switch, false});
  turn.act(submit);
  return run.jobs.supply.emplace(s.token, std::move(s)).first->second;
}

}  // namespace

bool next_runs(const Submission& s, std::uint32_t task) {
  return std::any_of(s.tasks.begin(), s.tasks.end(), [&](const auto& entry) {
    return entry.first > task && entry.second.state == JobState::Running;
  });
}

Duration submit_pause(std::uint32_t n) {
  Duration pause = 15s;
  for (std::uint32_t i = 1; i < n && pause < 10min; ++i) pause *= 2;
  return std::min<Duration>(pause, 10min);
}

void write_orders(Turn& turn, const wire::Resume& resume, std::uint64_t skip_samples) {
  RunState& run = turn.r();
  const RunPolicy& policy = run.policy;
  run.asked.order = run.asked.order.next();
  wire::Orders orders;
  orders.run = policy.run;
  orders.number = run.asked.order;
  orders.epoch = turn.site.epoch;
  orders.resume = resume;
  orders.command = policy.train.command;
  orders.environment = policy.train.environment;
  orders.setup = policy.train.setup;
  orders.nodes = grant_of_next(turn).size.active;
  orders.ranks_per_node = policy.train.ranks_per_node;
  orders.spares = policy.scheduler.spares;
  orders.in_allocation = policy.recover.in_allocation;
  const std::uint32_t left = policy.recover.restarts_total -
                             std::min(policy.recover.restarts_total, run.recovery.budget.spent);
  orders.restart_budget = std::min(left, policy.recover.restarts_without_progress);
  orders.hang_floor = policy.hang.floor;
  orders.save_signal = policy.train.save_signal;
  orders.kill_switch = policy.train.kill_switch;
  orders.finished = policy.train.finished;
  orders.exit_before_limit = signals::limit_margin(run);
  orders.checkpoint_directory = policy.checkpoints.directory;
  orders.checkpoint_format = policy.checkpoints.format;
  orders.verify_checkpoints = policy.checkpoints.verify;
  orders.keep_last = policy.checkpoints.keep_last;
  orders.keep_every = policy.checkpoints.keep_every;
  orders.keep_pin = run.asked.pins = pins_of(run);
  const bool back = resume.mode == wire::ResumeMode::Exact;
  orders.keep_follow = run.asked.follow =
      followers::rules(run, back ? std::optional(resume.iteration) : std::nullopt);
  orders.archive_to = policy.checkpoints.archive_to;
  orders.archive_every = policy.checkpoints.archive_every;
  orders.archive_without_optimizer = policy.checkpoints.archive_without_optimizer;
  orders.lr_scale = run.asked.lr_scale;
  orders.skip_samples = skip_samples;
  orders.skips = skips_of(run.recovery.experiments);
  orders.exclude = avoided_nodes(turn, orders.nodes);
  run.recovery.searched = run.recovery.bisect.suspects.size();
  for (const NodeName& node : bisected_out(run, policy.scheduler.spares))  // as far as spares last
    if (std::find(orders.exclude.begin(), orders.exclude.end(), node) == orders.exclude.end())
      orders.exclude.push_back(node);
  for (const auto& [name, entry] : turn.site.ledger.nodes)
    if (has_agents(policy) && entry.record && entry.record->parole) orders.bench.push_back(name);
  orders.preflight = policy.recover.preflight && has_agents(policy) && run.newest == Generation{};
  orders.progress = policy.watch.progress;
  if (resume.mode == wire::ResumeMode::Exact)
    run.asked.exact_order = run.asked.order;
  else
    run.asked.exact_order.reset();
  turn.act(WriteOrders{orders});
}

void submit(Turn& turn, const std::string& why) {
  RunState& run = turn.r();
  if (const std::string rival = rival_text(run); !rival.empty())
    return turn.go(training::Queued{}, Trigger::Submits,
                   fmt::format("{}not submitting while {}", why.empty() ? "" : why + "; ", rival));
  if (too_many(turn) && allowed(turn.kind(), Trigger::Holds, TrainingKind::Held))
    return hold_submissions(turn, why);
  if (run.jobs.may_write &&
      script::wait_for_stillness(turn, Trigger::Submits, why, "the lost job's processes"))
    return;
  if (script::sets_resume_point(turn, why)) return;
  if (!run.asked.exact_order) write_orders(turn, wire::Resume{});
  const Submission& s = add_submission(turn, "");
  turn.go(training::Queued{}, Trigger::Submits,
          fmt::format("{}submitting {} on {}{}", why.empty() ? "" : why + "; ",
                      s.array_tasks == 1 ? std::string("a job")
                                         : fmt::format("an array of {} tasks", s.array_tasks),
                      count_text(s.nodes, "node"),
                      s.exclude.empty() ? "" : fmt::format(" without {}", nodes_text(s.exclude))));
}

void ensure(Turn& turn, const std::string& why) {
  RunState& run = turn.r();
  auto* queued = turn.in<training::Queued>();
  if (queued == nullptr) return;
  bool live = false;
  bool useful = false;
  for (const auto& [token, s] : run.jobs.supply) {
    live = live || s.live();
    useful = useful || s.waiting() > 0 || std::holds_alternative<Running>(s.state) ||
             (s.live() && next_runs(s, 0));
  }
  if (useful) {
    turn.say(why);
    if (!has_agents(run.policy) && !run.policy.train.kill_switch.empty())
      turn.act(SetKillSwitch{run.policy.train.kill_switch, false});
    return resize_waiting(turn);
  }
  if (live) return turn.say(why);  // one that is being cancelled: wait for its proven end
  if (run.asked.paused)
    return turn.go(
        training::Idle{}, Trigger::Drains,
        fmt::format("{}the run is paused, nothing is submitted", why.empty() ? "" : why + "; "));
  if (queued->tree || (queued->submit_at && *queued->submit_at > turn.now())) return turn.say(why);
  if (!run.jobs.rivals.empty()) return turn.say(why);
  submit(turn, why);
}

void top_up(Turn& turn) {
  RunState& run = turn.r();
  const auto dry = signals::chain_dry(run);
  if (!dry || run.asked.paused || !turn.active() || turn.in<training::Stopping>() != nullptr)
    return;
  if (is_near_end(run)) return;
  const Submission* running = running_submission(run);
  if (running == nullptr || running->job.job == 0) return;
  if (run.asked.exact_order || !run.jobs.rivals.empty()) return;
  if (!has_agents(run.policy)) return;  // its next job waits for the proven end of this one
  if (too_many(turn)) return hold_submissions(turn, *dry);
  turn.say(fmt::format("{}; submitting the next array behind {}", *dry, job_text(running->job)));
  write_orders(turn, wire::Resume{});
  add_submission(turn, fmt::format("afterany:{}", running->job.job));
}

void follow_pins(Turn& turn) {
  RunState& run = turn.r();
  if (run.policy.checkpoints.keep_last == 0 || run.asked.exact_order || !has_agents(run.policy))
    return;
  if (turn.in<training::Training>() == nullptr) return;
  if (pins_of(run) == run.asked.pins) {
    if (!followers::went_back(run)) return;
    turn.say("checkpoints from here on are followed again");
    return write_orders(turn, wire::Resume{});
  }
  const auto before = run.asked.pins;
  write_orders(turn, wire::Resume{});
  const auto pins = pins_of(run, false);  // what waits for a follower is no news
  const bool news = !std::includes(before.begin(), before.end(), pins.begin(), pins.end());
  if (pins.empty() || (!news && !run.policy.after.empty())) return;
  turn.say(fmt::format("kept from deletion: {}; {}", fmt::join(pins, ", "),
                       run.health.loss.spike ? "the loss is in a spike, and these lie before it"
                                             : "they lie on both sides of a spike, or are pinned"));
}

void follow_search(Turn& turn) {
  RunState& run = turn.r();
  if (run.recovery.searched == run.recovery.bisect.suspects.size() || run.asked.exact_order) return;
  if (turn.in<training::Training>() == nullptr) return;
  if (has_agents(run.policy)) write_orders(turn, wire::Resume{});
  run.recovery.searched = run.recovery.bisect.suspects.size();
  update_exclusions(turn);
}

void follow_plan(Turn& turn) {
  RunState& run = turn.r();
  if (run.policy.scheduler.nodes.size() < 2 || run.asked.paused || run.asked.exact_order) return;
  if (turn.in<training::Training>() == nullptr || running_submission(run) == nullptr) return;
  if (too_many(turn)) return;
  const std::uint32_t planned = planned_nodes(run);
  for (auto& [token, s] : run.jobs.supply) {
    if (s.waiting() == 0 || s.job.job == 0 || s.planned == 0 || s.planned == planned) continue;
    turn.say(
        fmt::format("{} samples are consumed: the plan needs {} from the next start on, but the "
                    "waiting tasks have {}; replacing them",
                    run.health.progress.samples, count_text(planned, "node"), s.planned));
    cancel_waiting(turn);
    return top_up(turn);
  }
}

void update_exclusions(Turn& turn) {
  RunState& run = turn.r();
  const auto wanted = submitted_without(turn, size_for(turn).active);
  for (auto& [token, s] : run.jobs.supply) {
    if (s.waiting() == 0 || s.job.job == 0 || s.exclude == wanted) continue;
    s.exclude = wanted;
    turn.act(SetExclusions{s.token, s.job, wanted});
  }
}

}  // namespace stoker::core::supply
