// Seeing: what one pass asks SLURM, and what it proves. Present in a good answer beats proven
// terminal beats unknown; a job that is missing from a good squeue is only looked for.
#include <algorithm>
#include <fmt/format.h>

#include "slurm/rivals.hpp"
#include "slurm/slurm_scheduler.hpp"

namespace stoker::slurm {
namespace {

constexpr Duration kMembersEvery = 10min;
constexpr std::size_t kMostUsers = 10'000;
constexpr Duration kTooLongFor = 1h;

bool is_node_death(core::JobState state) {
  return state == core::JobState::NodeFail || state == core::JobState::BootFail;
}

bool is_too_long(const Error& error) {
  return error.what.starts_with("the answer is longer");
}

// The job that sbatch named for a submission is that submission, also when its token is lost.
void restore_token(QueueRow& row, const std::vector<core::JobExpected>& expected,
                   const std::string& user) {
  for (const core::JobExpected& job : expected)
    if (job.job.job == row.id.job && lost_its_token(row, job.token, user))
      row.comment = job.token.text;
}

}  // namespace

void SlurmScheduler::expect(std::vector<core::JobExpected> jobs) {
  const std::scoped_lock lock(mutex_);
  expected_ = std::move(jobs);
}

void SlurmScheduler::guard(std::vector<core::RunGrounds> runs) {
  const std::scoped_lock lock(mutex_);
  grounds_ = std::move(runs);
}

std::set<std::uint64_t> SlurmScheduler::known_jobs() const {
  const std::scoped_lock lock(mutex_);
  std::set<std::uint64_t> jobs;
  for (const core::JobExpected& job : expected_) jobs.insert(job.job.job);
  return jobs;
}

bool SlurmScheduler::is_member(const std::string& user, const std::string& group) {
  const Instant now = options_.now();
  {
    const std::scoped_lock lock(mutex_);
    if (members_.size() > kMostUsers) members_.clear();
    const auto found = members_.find({user, group});
    if (found != members_.end() && now - found->second.asked < kMembersEvery)
      return found->second.member;
  }
  const bool member = options_.is_member(user, group);
  const std::scoped_lock lock(mutex_);
  members_[{user, group}] = {member, now};
  return member;
}

// Whose jobs squeue is asked for; "" = all users'. With a group it is all users': no call can list
// the members by their primary group where the directory service lists no users, and with several
// users squeue loads the whole queue anyway. Where that is more than is read: those who are listed,
// and where one of them fills it with his own jobs, we alone.
std::string SlurmScheduler::users_to_ask(const std::set<std::string>& groups, Asked whom) {
  if (options_.user.empty()) return "";
  if (!groups.empty() && whom == Asked::Everybody) return "";
  std::set<std::string> users{options_.user};
  if (whom == Asked::Members && options_.members)
    for (const std::string& group : groups)
      for (const std::string& name : options_.members(group)) users.insert(name);
  return fmt::format("{}", fmt::join(users, ","));
}

SlurmScheduler::Asked SlurmScheduler::whom_to_ask() {
  const std::scoped_lock lock(mutex_);
  if (too_long_at_ && options_.now() - *too_long_at_ > kTooLongFor) asked_of_ = Asked::Everybody;
  return asked_of_;
}

// The jobs of these were more than is read.
SlurmScheduler::Asked SlurmScheduler::narrower_than(Asked whom) {
  const std::scoped_lock lock(mutex_);
  asked_of_ = whom == Asked::Everybody ? Asked::Members : Asked::OurUser;
  too_long_at_ = options_.now();
  return asked_of_;
}

// The queue of everybody who may have a job on these runs: ours and the members' of their groups.
Result<std::vector<QueueRow>> SlurmScheduler::guarded_queue(
    const std::vector<RunName>& names, const std::vector<core::RunGrounds>& grounds) {
  if (!options_.cluster_file.empty()) STOKER_TRY_STATUS(know_cluster());
  std::set<std::string> groups;
  std::vector<std::string> folders;
  for (const core::RunGrounds& run : grounds) {
    folders.insert(folders.end(), run.folders.begin(), run.folders.end());
    if (!run.group.empty() && options_.is_member) groups.insert(run.group);
  }
  NodeLists lists;
  {
    const std::scoped_lock lock(mutex_);
    lists = node_lists_;
  }
  const auto counts = [&](const std::string& user) {
    return user == options_.user ||
           std::any_of(groups.begin(), groups.end(),
                       [&](const std::string& group) { return is_member(user, group); });
  };
  const Matters matters = options_.user.empty() ? Matters() : Matters(counts);
  Asked whom = whom_to_ask();
  const auto ask = [&] {
    return controller_->queue({users_to_ask(groups, whom), 0, names, folders, &lists, matters});
  };
  auto rows = ask();
  while (!rows && !groups.empty() && is_too_long(rows.error()) && whom != Asked::OurUser) {
    whom = narrower_than(whom);
    rows = ask();
  }
  {
    const std::scoped_lock lock(mutex_);
    node_lists_ = std::move(lists);
  }
  // A slurmrestd before 23.11 names its cluster by its jobs alone.
  if (rows && !options_.cluster_file.empty()) STOKER_TRY_STATUS(know_cluster());
  if (!rows || groups.empty()) return rows;
  std::erase_if(*rows, [&](const QueueRow& row) { return !counts(row.user); });
  return rows;
}

std::map<RunName, std::vector<std::string>> SlurmScheduler::rivals_in(
    const std::vector<QueueRow>& rows, const std::vector<core::RunGrounds>& grounds) {
  const auto may_be = [this](const std::string& user, const std::string& group) {
    return user == options_.user || options_.user.empty() ||
           (!group.empty() && options_.is_member && is_member(user, group));
  };
  return find_rivals(rows, grounds, options_.user, known_jobs(), may_be);
}

// `waited`: it never ran.
bool SlurmScheduler::was_cancelled_here(const JobId& job, bool waited) const {
  const std::scoped_lock lock(mutex_);
  if (waited && rests_cancelled_.count(job.job) > 0) return true;
  return cancelled_.count(job) > 0 || cancelled_.count(JobId{job.job, 0}) > 0 ||
         (!waited && job.task == 0 && cancelled_.count(JobId{job.job, 1}) > 0);
}

// Restart counts of what runs and exit codes of what has ended, all in one question.
Status SlurmScheduler::learn_numbers(const std::vector<QueueRow>& rows) {
  std::set<std::uint64_t> ask;
  for (const QueueRow& row : rows) {
    const auto found = known_.find({row.id, row.raw_id});
    const bool edge = found == known_.end() || found->second.state != row.state;
    // A task that waits again after it ran was requeued: only its restart count proves that this is
    // no answer from the past.
    const bool again = found != known_.end();
    if (edge && !row.numbers && (row.state != core::JobState::Pending || again))
      ask.insert(row.id.job);
  }
  std::map<JobId, JobNumbers> numbers;
  if (!ask.empty()) {
    STOKER_TRY(found, controller_->numbers({ask.begin(), ask.end()}));
    numbers = std::move(found);
  }
  std::map<TaskKey, Known> known;
  for (const QueueRow& row : rows) {
    const TaskKey key(row.id, row.raw_id);
    Known entry{row.state, {}};
    if (const auto before = known_.find(key); before != known_.end())
      entry.numbers = before->second.numbers;
    if (const auto found = numbers.find(row.id); found != numbers.end())
      entry.numbers = found->second;
    if (row.numbers) entry.numbers = *row.numbers;
    known.emplace(key, entry);
  }
  known_ = std::move(known);
  return ok();
}

core::JobSeen SlurmScheduler::seen_of(const QueueRow& row, const Token& token) const {
  core::JobSeen seen;
  const Known& known = known_.at({row.id, row.raw_id});
  seen.token = token;
  // Outside an array: its first task.
  seen.job = row.id.task == 0 && !is_remainder(row) ? JobId{row.id.job, 1} : row.id;
  seen.restart = known.numbers.restarts;
  seen.state = row.state;
  seen.reason = row.reason;
  seen.nodes = row.nodes;
  if (row.state == core::JobState::Running) seen.ends_at = row.ends;
  if (core::is_terminal(row.state)) {
    seen.exit_code = known.numbers.exit_code;
    seen.signal = known.numbers.signal;
  }
  if (row.state == core::JobState::Cancelled) {
    seen.cancelled_by_us = was_cancelled_here(row.id, row.nodes.empty());
    seen.cancelled_by_uid = row.cancelled_by_uid;  // squeue itself does not tell: 0
  }
  return seen;
}

// A waiting task that was cancelled alone leaves no row. So an array of which only ended tasks are
// shown, twice in a row, has none left that could start: its rest is reported gone.
void SlurmScheduler::look_for_rests(const std::vector<QueueRow>& rows, core::SchedulerView& view) {
  std::map<std::uint64_t, const QueueRow*> over;  // by array
  for (const QueueRow& row : rows)
    if (row.id.task != 0) over[row.id.job] = &row;
  for (const QueueRow& row : rows)
    if (!core::is_terminal(row.state) || is_remainder(row)) over.erase(row.id.job);
  std::set<std::uint64_t> seen;
  for (const auto& [job, row] : over) {
    seen.insert(job);
    if (over_.count(job) == 0) continue;
    core::JobSeen rest;
    rest.token = token_of(*row);
    rest.job = JobId{job, 0};
    rest.state = core::JobState::Cancelled;
    rest.reason = "no task waits";
    rest.cancelled_by_us = was_cancelled_here(rest.job, true);
    view.jobs.push_back(std::move(rest));
  }
  over_ = std::move(seen);
}

Result<std::string> SlurmScheduler::cluster_name() {
  STOKER_TRY(facts, controller_->cluster());
  const std::scoped_lock lock(mutex_);
  accounts_ = facts.accounts;
  max_array_ = facts.max_array;
  return facts.name;
}

Status SlurmScheduler::know_cluster() {
  if (const std::scoped_lock lock(mutex_); !cluster_.empty()) return ok();
  STOKER_TRY(name, cluster_name());
  if (name.empty()) return ok();  // an empty queue of a slurmrestd that does not say
  const bool kept = !options_.cluster_file.empty();
  STOKER_TRY(first, kept ? files_.create_once(options_.cluster_file, name) : Result<bool>(true));
  if (!first) {
    STOKER_TRY(known, files_.read(options_.cluster_file, 4096));
    if (known != name)
      return fail(fmt::format("the cluster {} answers, but the jobs are on {}", name, known),
                  options_.cluster_file,
                  options_.cluster.empty()
                      ? "fix PATH and SLURM_CONF; remove this file if the cluster was renamed"
                      : "runs of two clusters need two daemons (stokerd --state); remove this "
                        "file when no job is left on " +
                            known);
  }
  controller_->bind(name);
  const std::scoped_lock lock(mutex_);
  cluster_ = std::move(name);
  return ok();
}

Result<core::SchedulerView> SlurmScheduler::observe(const std::vector<RunName>& runs) {
  std::vector<core::RunGrounds> grounds;
  std::vector<core::JobExpected> expected;
  {
    const std::scoped_lock lock(mutex_);
    grounds = grounds_;
    expected = expected_;
  }
  STOKER_TRY(all, guarded_queue(runs, grounds));
  for (QueueRow& row : all) restore_token(row, expected, options_.user);
  std::vector<QueueRow> rows;  // ours
  for (const QueueRow& row : all)
    if (is_own(row, options_.user)) rows.push_back(row);
  STOKER_TRY_STATUS(know_cluster());
  correct(rows);
  const bool node_died = std::any_of(rows.begin(), rows.end(), [this](const QueueRow& row) {
    const auto found = known_.find({row.id, row.raw_id});
    return is_node_death(row.state) && (found == known_.end() || found->second.state != row.state);
  });
  STOKER_TRY_STATUS(learn_numbers(rows));
  core::SchedulerView view;
  look_at_nodes(view, node_died);
  for (const QueueRow& row : rows) view.jobs.push_back(seen_of(row, token_of(row)));
  look_for_rests(rows, view);
  view.rivals = rivals_in(all, grounds);
  look_for_missing(rows, view);
  // What has ended is reported before what runs instead, and what cannot start any more last.
  std::stable_sort(view.jobs.begin(), view.jobs.end(),
                   [](const core::JobSeen& a, const core::JobSeen& b) {
                     const auto place = [](const core::JobSeen& job) {
                       return job.job.task == 0 ? 2 : core::is_terminal(job.state) ? 0 : 1;
                     };
                     return place(a) < place(b);
                   });
  return view;
}

}  // namespace stoker::slurm
