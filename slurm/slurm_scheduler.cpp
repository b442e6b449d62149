#include "slurm/slurm_scheduler.hpp"

#include <algorithm>

#include "common/hostlist.hpp"
#include "slurm/client_call.hpp"
#include "slurm/job_json.hpp"

namespace stoker::slurm {
namespace {

core::PortError definite(Error error) {
  return {std::move(error), core::Certainty::Definite};
}
core::PortError unknown(Error error) {
  return {std::move(error), core::Certainty::Unknown};
}

bool never_started(const Error& error) {
  return error.what.rfind("cannot start", 0) == 0 || error.what.rfind("command not found", 0) == 0;
}

bool says_gone(const os::CommandOutput& output) {
  return output.err.find("Invalid job id") != std::string::npos;
}

bool says_over(const os::CommandOutput& output) {
  return output.err.find("already complet") != std::string::npos;  // "completing or completed"
}

}  // namespace

Result<os::CommandOutput> SlurmScheduler::question(std::vector<std::string> argv) {
  budget_.spend(options_.now());
  return call(std::move(argv));
}

Result<os::CommandOutput> SlurmScheduler::call(std::vector<std::string> argv) {
  return run(client_call(std::move(argv), options_.environment));
}

Result<os::CommandOutput> SlurmScheduler::run(const os::SpawnOptions& options) {
  const std::string& command = options.argv.front();
  auto output = processes_.run(options, options_.deadline);
  if (!output) {
    Error error = output.error();
    if (error.object.empty()) error.object = command;
    return fail(error);
  }
  if (output->truncated) return fail("the answer is longer than what is read", command);
  return output;
}

Result<std::vector<QueueRow>> SlurmScheduler::queue(const std::vector<RunName>& names,
                                                    std::uint64_t job) {
  if (!options_.cluster_file.empty()) STOKER_TRY_STATUS(know_cluster());
  STOKER_TRY(answer, ask_queue(job == 0 ? options_.user : "", job));
  if (!answer.output.status.ok()) {
    if (job != 0 && says_gone(answer.output)) return std::vector<QueueRow>{};
    return fail("squeue failed: " + what_it_said(answer.output), "squeue");
  }
  return parse_queue(answer.output.out, names, {}, nullptr, answer.mark);
}

Result<SlurmScheduler::QueueAnswer> SlurmScheduler::ask_queue(const std::string& users,
                                                              std::uint64_t job) {
  budget_.spend(options_.now());
  const std::string mark = options_.row_mark ? options_.row_mark() : std::string();
  const QueueForm form = mark.empty() ? QueueForm::InArguments : QueueForm::InEnvironment;
  os::SpawnOptions squeue = client_call(queue_command(users, job, form), options_.environment);
  if (form == QueueForm::InEnvironment) squeue.environment["SQUEUE_FORMAT"] = queue_format(mark);
  STOKER_TRY(output, run(squeue));
  return QueueAnswer{std::move(output), mark};
}

// JSON where scontrol writes it, for names with blanks; any trouble with it, and the text is asked.
Result<std::vector<JobDetail>> SlurmScheduler::details(const JobId& job) {
  const bool json = [this] {
    const std::scoped_lock lock(mutex_);
    return json_;
  }();
  if (json) {
    STOKER_TRY(output, question(json_command(job)));
    if (says_gone(output)) return std::vector<JobDetail>{};
    if (output.status.ok())
      if (auto jobs = parse_job_json(output.out)) return jobs;
  }
  STOKER_TRY(output, question({"scontrol", "show", "job", "-o", job.text()}));
  if (!output.status.ok()) {
    if (says_gone(output)) return std::vector<JobDetail>{};
    return fail("scontrol failed: " + what_it_said(output), "scontrol");
  }
  return parse_job_details(output.out);
}

std::vector<NodeName> SlurmScheduler::known_nodes(const std::vector<NodeName>& nodes) const {
  const std::scoped_lock lock(mutex_);
  std::vector<NodeName> known;
  for (const NodeName& node : nodes)
    if (nodes_.empty() || nodes_.count(node) > 0) known.push_back(node);
  return known;
}

// How SLURM names the job, when this id is in the queue, carries this token, and the task (0 = any)
// has not ended; "" when both squeue and scontrol know nothing of the kind. A job outside an array
// counts as its own first task: SLURM knows it by its bare id.
Result<std::string> SlurmScheduler::name_of(const Token& token, const JobId& job) {
  STOKER_TRY(rows, queue({}, job.job));
  bool shown = false;
  for (const QueueRow& row : rows) {
    shown = shown || row.id.job == job.job;
    const bool plain = row.id.task == 0;
    const bool meant = row.id.job == job.job && (job.task == 0 || plain || row.id.task == job.task);
    const bool ours = token_of(row) == token || lost_its_token(row, token, options_.user);
    if (meant && ours && !core::is_terminal(row.state)) return (plain ? row.id : job).text();
  }
  if (shown) return std::string();
  STOKER_TRY(records, details(JobId{job.job, 0}));  // an answer about others proves nothing
  for (const JobDetail& record : records) {
    const Token submitted = token_of_command(record.command);
    const bool ours =
        submitted == token || (submitted.empty() && record.name == run_of(token).text);
    if (ours && !core::is_terminal(record.state))
      return fail("squeue does not show a job that scontrol shows", record.id.text(),
                  "look for SQUEUE_* in the environment and at the squeue in PATH");
  }
  return std::string();
}

core::PortResult<std::monostate> SlurmScheduler::cancel(const core::Cancel& cancel) {
  const JobId job = cancel.whole_array ? JobId{cancel.job.job, 0} : cancel.job;
  const auto name = name_of(cancel.token, job);
  if (!name) return definite(name.error());
  if (name->empty()) return std::monostate{};  // gone, or the id now names somebody else's job
  std::vector<std::string> argv{"scancel"};
  if (cancel.pending_only) argv.emplace_back("--state=PENDING");
  argv.push_back(*name);
  const auto output = call(std::move(argv));
  if (!output)
    return never_started(output.error()) ? definite(output.error()) : unknown(output.error());
  if (!output->status.ok() && !says_gone(*output) && !says_over(*output))
    return unknown({"scancel failed: " + what_it_said(*output), *name, ""});
  const std::scoped_lock lock(mutex_);
  if (cancel.pending_only)
    rests_cancelled_.insert(job.job);
  else
    cancelled_.insert(job);
  return std::monostate{};
}

core::PortResult<std::monostate> SlurmScheduler::signal(const core::SignalJob& signal) {
  const auto name = name_of(signal.token, signal.job);
  if (!name) return definite(name.error());
  if (name->empty()) return std::monostate{};
  const auto output = call({"scancel", "--signal=" + signal.signal, *name});
  if (!output)
    return never_started(output.error()) ? definite(output.error()) : unknown(output.error());
  if (!output->status.ok() && !says_gone(*output) && !says_over(*output))
    return unknown({"scancel failed: " + what_it_said(*output), *name, ""});
  return std::monostate{};
}

core::PortResult<std::monostate> SlurmScheduler::set_exclusions(const core::SetExclusions& change) {
  const auto name = name_of(change.token, JobId{change.job.job, 0});
  if (!name) return definite(name.error());
  if (name->empty()) return std::monostate{};
  const std::string wanted = compress_hostlist(known_nodes(change.nodes));
  const JobId array{change.job.job, 0};
  const auto output =
      call({"scontrol", "update", "JobId=" + array.text(), "ExcNodeList=" + wanted});
  if (!output)
    return never_started(output.error()) ? definite(output.error()) : unknown(output.error());
  const auto records = details(array);
  if (!records) return unknown(records.error());
  for (const JobDetail& record : *records) {
    if (record.state != core::JobState::Pending) continue;
    const auto now = expand_hostlist(record.excluded);
    if (!now || compress_hostlist(*now) != wanted)
      return definite({"the exclusions were not taken: " + what_it_said(*output), array.text(),
                       "pending tasks still exclude \"" + record.excluded + "\""});
  }
  return std::monostate{};
}

}  // namespace stoker::slurm
