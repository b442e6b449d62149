#include "slurm/slurm_scheduler.hpp"

#include <algorithm>

#include "common/hostlist.hpp"
#include "slurm/command_controller.hpp"
#include "slurm/rest/rest_controller.hpp"

namespace stoker::slurm {
namespace {

core::PortError definite(Error error) {
  return {std::move(error), core::Certainty::Definite};
}
core::PortError unknown(Error error) {
  return {std::move(error), core::Certainty::Unknown};
}

std::unique_ptr<Controller> make_controller(core::Processes& processes, CallBudget& budget,
                                            const SlurmOptions& options) {
  auto commands = std::make_unique<CommandController>(processes, budget, options);
  if (!options.rest) return commands;
  return std::make_unique<RestController>(*options.rest, std::move(commands), budget, options);
}

}  // namespace

SlurmScheduler::SlurmScheduler(core::Processes& processes, core::Files& files, SlurmOptions options)
    : files_(files),
      options_(std::move(options)),
      budget_(options_.question_every),
      controller_(make_controller(processes, budget_, options_)) {}

SlurmScheduler::~SlurmScheduler() = default;

Result<std::vector<QueueRow>> SlurmScheduler::queue(const std::vector<RunName>& names,
                                                    std::uint64_t job) {
  if (!options_.cluster_file.empty()) STOKER_TRY_STATUS(know_cluster());
  auto rows = controller_->queue({job == 0 ? options_.user : "", job, names});
  if (rows && !options_.cluster_file.empty()) STOKER_TRY_STATUS(know_cluster());
  return rows;
}

std::vector<NodeName> SlurmScheduler::known_nodes(const std::vector<NodeName>& nodes) const {
  const std::scoped_lock lock(mutex_);
  std::vector<NodeName> known;
  for (const NodeName& node : nodes)
    if (nodes_.empty() || nodes_.count(node) > 0) known.push_back(node);
  return known;
}

// How SLURM names the job, when this id is in the queue, carries this token, and the task (0 = any)
// has not ended; none when both ways to ask know nothing of the kind. A job outside an array
// counts as its own first task: SLURM knows it by its bare id. A submission that was not answered
// has no id yet, and scontrol takes 0 for every job: then it is the token that is looked for.
Result<std::optional<JobId>> SlurmScheduler::name_of(const Token& token, const JobId& job) {
  if (job.job == 0) {
    const auto found = look_up(token);
    if (const auto* error = std::get_if<core::PortError>(&found)) return fail(error->error);
    return std::get<std::optional<JobId>>(found);
  }
  STOKER_TRY(rows, queue({}, job.job));
  bool shown = false;
  for (const QueueRow& row : rows) {
    shown = shown || row.id.job == job.job;
    const bool plain = row.id.task == 0;
    const bool meant = row.id.job == job.job && (job.task == 0 || plain || row.id.task == job.task);
    const bool ours = token_of(row) == token || lost_its_token(row, token, options_.user);
    if (meant && ours && !core::is_terminal(row.state)) return std::optional(plain ? row.id : job);
  }
  if (shown) return std::optional<JobId>();
  STOKER_TRY(records,
             controller_->details(JobId{job.job, 0}));  // an answer about others proves nothing
  for (const JobDetail& record : records) {
    const Token submitted = token_of_command(record.command);
    const bool ours =
        submitted == token || (submitted.empty() && record.name == run_of(token).text);
    if (ours && !core::is_terminal(record.state))
      return fail("squeue does not show a job that scontrol shows", record.id.text(),
                  "look for SQUEUE_* in the environment and at the squeue in PATH");
  }
  return std::optional<JobId>();
}

core::PortResult<std::monostate> SlurmScheduler::cancel(const core::Cancel& cancel) {
  const JobId job = cancel.whole_array ? JobId{cancel.job.job, 0} : cancel.job;
  const auto name = name_of(cancel.token, job);
  if (!name) return definite(name.error());
  if (!*name) return std::monostate{};  // gone, or the id now names somebody else's job
  auto done = controller_->cancel(**name, cancel.pending_only);
  if (std::holds_alternative<core::PortError>(done)) return done;
  const std::scoped_lock lock(mutex_);
  if (cancel.pending_only)
    rests_cancelled_.insert((*name)->job);
  else
    cancelled_.insert(JobId{(*name)->job, job.task});
  return done;
}

core::PortResult<std::monostate> SlurmScheduler::signal(const core::SignalJob& signal) {
  const auto name = name_of(signal.token, signal.job);
  if (!name) return definite(name.error());
  if (!*name) return std::monostate{};
  return controller_->signal(**name, signal.signal);
}

core::PortResult<std::monostate> SlurmScheduler::set_exclusions(const core::SetExclusions& change) {
  const auto name = name_of(change.token, JobId{change.job.job, 0});
  if (!name) return definite(name.error());
  if (!*name) return std::monostate{};
  const std::string wanted = compress_hostlist(known_nodes(change.nodes));
  const JobId array{change.job.job, 0};
  const auto sent = controller_->exclude(array, wanted);
  if (const auto* error = std::get_if<core::PortError>(&sent)) return *error;
  const auto records = controller_->details(array);
  if (!records) return unknown(records.error());
  for (const JobDetail& record : *records) {
    if (record.state != core::JobState::Pending) continue;
    const auto now = expand_hostlist(record.excluded);
    if (!now || compress_hostlist(*now) != wanted)
      return definite({"the exclusions were not taken: " + std::get<std::string>(sent),
                       array.text(), "pending tasks still exclude \"" + record.excluded + "\""});
  }
  return std::monostate{};
}

}  // namespace stoker::slurm
