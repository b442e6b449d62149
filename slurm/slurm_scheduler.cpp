#include "slurm/slurm_scheduler.hpp"

#include <algorithm>

#include "common/hostlist.hpp"
#include "slurm/client_call.hpp"
#include "slurm/submission.hpp"
#include "slurm/submit_answer.hpp"

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
  STOKER_TRY(output, question(queue_command(job == 0 ? options_.user : "", job)));
  if (!output.status.ok()) {
    if (job != 0 && says_gone(output)) return std::vector<QueueRow>{};
    return fail("squeue failed: " + what_it_said(output), "squeue");
  }
  return parse_queue(output.out, names);
}

Result<std::vector<JobDetail>> SlurmScheduler::details(const JobId& job) {
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
    if (meant && token_of(row) == token && !core::is_terminal(row.state))
      return (plain ? row.id : job).text();
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

core::PortResult<std::optional<JobId>> SlurmScheduler::look_up(const Token& token) {
  const auto rows = queue({run_of(token)});
  if (!rows) return definite(rows.error());
  for (const QueueRow& row : *rows)
    if (token_of(row) == token) return std::optional(JobId{row.id.job, 0});
  const auto all = question({"scontrol", "-a", "show", "job", "-o"});
  if (!all) return definite(all.error());
  if (!all->status.ok())
    return definite({"scontrol failed: " + what_it_said(*all), "scontrol", ""});
  if (all->out.find(token.text) != std::string::npos)
    return definite({"squeue does not show a job that scontrol shows", token.text,
                     "look for SQUEUE_* in the environment and at the squeue in PATH"});
  return std::optional<JobId>{};
}

core::PortResult<JobId> SlurmScheduler::submit(const core::SubmitRequest& request) {
  core::SubmitRequest possible = request;
  possible.submit.exclude = known_nodes(request.submit.exclude);
  const auto prepared = prepare(possible);
  if (!prepared) return definite(prepared.error());
  const auto before = look_up(request.submit.token);
  if (const auto* error = std::get_if<core::PortError>(&before)) return definite(error->error);
  if (const auto& id = std::get<std::optional<JobId>>(before)) return *id;
  if (!prepared->text.empty()) {
    const Status made = files_.make_directories(request.policy.directory + "/batch", 0755);
    if (!made) return definite(made.error());
    if (const Status written = files_.replace(prepared->argv.back(), prepared->text); !written)
      return definite(written.error());
  }
  os::SpawnOptions sbatch = client_call(prepared->argv, options_.environment);
  sbatch.working_directory = prepared->folder;
  for (const auto& [name, value] : prepared->environment) sbatch.environment[name] = value;
  const auto output = run(sbatch);
  if (!output)
    return never_started(output.error()) ? definite(output.error()) : unknown(output.error());
  return judge_submit(*output);
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
