#include "slurm/slurm_scheduler.hpp"

#include <algorithm>

#include "common/hostlist.hpp"
#include "slurm/batch_script.hpp"
#include "slurm/client_call.hpp"
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

// The run's name in a token "<run>-<order number>-<hex>".
RunName run_of(const Token& token) {
  auto at = token.text.rfind('-');
  if (at != std::string::npos && at > 0) at = token.text.rfind('-', at - 1);
  return RunName(at == std::string::npos ? token.text : token.text.substr(0, at));
}

}  // namespace

Result<os::CommandOutput> SlurmScheduler::call(std::vector<std::string> argv) {
  const std::string command = argv.front();
  auto output =
      processes_.run(client_call(std::move(argv), options_.environment), options_.deadline);
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
  STOKER_TRY(output, call(queue_command(job == 0 ? options_.user : "", job)));
  if (!output.status.ok()) {
    if (job != 0 && says_gone(output)) return std::vector<QueueRow>{};
    return fail("squeue failed: " + what_it_said(output), "squeue");
  }
  return parse_queue(output.out, names);
}

Result<std::vector<JobDetail>> SlurmScheduler::details(const JobId& job) {
  STOKER_TRY(output, call({"scontrol", "show", "job", "-o", job.text()}));
  if (!output.status.ok()) {
    if (says_gone(output)) return std::vector<JobDetail>{};
    return fail("scontrol failed: " + what_it_said(output), "scontrol");
  }
  return parse_job_details(output.out);
}

Result<SlurmScheduler::Known> SlurmScheduler::known_of(const QueueRow& row) {
  const auto key = std::pair(row.id, row.raw_id);
  const auto found = known_.find(key);
  const bool edge = found == known_.end() || found->second.state != row.state;
  if (!edge) return found->second;
  Known known;
  known.state = row.state;
  known.token = Token(row.comment);
  // Pending rows need no detail, unless the site has rewritten the comment.
  const bool plain = !row.comment.empty() && run_of(known.token).text == row.name;
  if (!plain || row.state != core::JobState::Pending) {
    STOKER_TRY(records, details(row.id));
    for (const JobDetail& record : records) {
      if (record.id != row.id && record.id.task != 0) continue;
      if (!plain) known.token = token_of_command(record.command);
      known.restart = record.restarts;
      known.exit_code = record.exit_code;
      known.signal = record.signal;
    }
  }
  known_[key] = known;
  return known;
}

Result<bool> SlurmScheduler::is_ours(const Token& token, const JobId& job) {
  STOKER_TRY(rows, queue({}, job.job));
  for (const QueueRow& row : rows) {
    if (row.id.job != job.job) continue;
    STOKER_TRY(known, known_of(row));
    return known.token == token;
  }
  return false;
}

core::PortResult<std::optional<JobId>> SlurmScheduler::look_up(const Token& token) {
  const auto rows = queue({run_of(token)});
  if (!rows) return definite(rows.error());
  for (const QueueRow& row : *rows) {
    const auto known = known_of(row);
    if (!known) return definite(known.error());
    if (known->token == token) return std::optional(JobId{row.id.job, 0});
  }
  return std::optional<JobId>{};
}

core::PortResult<JobId> SlurmScheduler::submit(const core::SubmitRequest& request) {
  const auto script = batch_script(request);
  if (!script) return definite(script.error());
  const auto before = look_up(request.submit.token);
  if (const auto* error = std::get_if<core::PortError>(&before)) return definite(error->error);
  if (const auto& id = std::get<std::optional<JobId>>(before)) return *id;
  const std::string path = script_path(request);
  if (const Status made = files_.make_directories(request.policy.directory + "/batch", 0755); !made)
    return definite(made.error());
  if (const Status written = files_.replace(path, *script); !written)
    return definite(written.error());
  const auto output = call({"sbatch", "--parsable", path});
  if (!output)
    return never_started(output.error()) ? definite(output.error()) : unknown(output.error());
  return judge_submit(*output);
}

core::PortResult<std::monostate> SlurmScheduler::cancel(const core::Cancel& cancel) {
  const auto ours = is_ours(cancel.token, cancel.job);
  if (!ours) return definite(ours.error());
  if (!*ours) return std::monostate{};  // gone, or the id now names somebody else's job
  const JobId job = cancel.whole_array ? JobId{cancel.job.job, 0} : cancel.job;
  std::vector<std::string> argv{"scancel"};
  if (cancel.pending_only) argv.emplace_back("--state=PENDING");
  argv.push_back(job.text());
  const auto output = call(std::move(argv));
  if (!output)
    return never_started(output.error()) ? definite(output.error()) : unknown(output.error());
  if (!output->status.ok() && !says_gone(*output))
    return unknown({"scancel failed: " + what_it_said(*output), job.text(), ""});
  cancelled_.insert(job);
  return std::monostate{};
}

core::PortResult<std::monostate> SlurmScheduler::set_exclusions(const core::SetExclusions& change) {
  const auto ours = is_ours(change.token, change.job);
  if (!ours) return definite(ours.error());
  if (!*ours) return std::monostate{};
  const std::string wanted = compress_hostlist(change.nodes);
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

Result<core::SchedulerView> SlurmScheduler::observe(const std::vector<RunName>& runs) {
  STOKER_TRY(rows, queue(runs));
  core::SchedulerView view;
  for (const QueueRow& row : rows) {
    STOKER_TRY(known, known_of(row));
    if (known.token.empty()) continue;  // of this name, but no submission of ours
    core::JobSeen seen;
    seen.token = known.token;
    seen.job = row.id;
    seen.restart = known.restart;
    seen.state = row.state;
    seen.reason = row.reason;
    seen.nodes = row.nodes;
    if (row.state == core::JobState::Running) seen.ends_at = row.ends;
    if (core::is_terminal(row.state)) {
      seen.exit_code = known.exit_code;
      seen.signal = known.signal;
    }
    if (row.state == core::JobState::Cancelled) {
      seen.cancelled_by_us =
          cancelled_.count(row.id) > 0 || cancelled_.count(JobId{row.id.job, 0}) > 0;
      seen.cancelled_by_uid = row.cancelled_by_uid;  // squeue itself does not tell: 0
    }
    view.jobs.push_back(std::move(seen));
  }
  std::set<std::pair<JobId, std::uint64_t>> present;
  for (const QueueRow& row : rows) present.emplace(row.id, row.raw_id);
  std::erase_if(known_, [&present](const auto& known) { return present.count(known.first) == 0; });
  return view;
}

}  // namespace stoker::slurm
