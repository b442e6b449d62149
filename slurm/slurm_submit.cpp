// Submitting: the token is looked up first, rivals are looked for, exclusions are tried out; then
// sbatch is called and its answer judged.
#include <algorithm>
#include <fmt/format.h>

#include "slurm/client_call.hpp"
#include "slurm/rivals.hpp"
#include "slurm/slurm_scheduler.hpp"
#include "slurm/submit_answer.hpp"

namespace stoker::slurm {
namespace {

core::PortError definite(Error error) {
  return {std::move(error), core::Certainty::Definite};
}

bool never_started(const Error& error) {
  return error.what.starts_with("cannot start") || error.what.starts_with("command not found");
}

}  // namespace

core::PortResult<std::optional<JobId>> SlurmScheduler::find_token(const std::vector<QueueRow>& rows,
                                                                  const Token& token) {
  for (const QueueRow& row : rows)
    if (is_own(row, options_.user) && token_of(row) == token)
      return std::optional(JobId{row.id.job, 0});
  const auto all = question({"scontrol", "-a", "show", "job", "-o"});
  if (!all) return definite(all.error());
  if (!all->status.ok())
    return definite({"scontrol failed: " + what_it_said(*all), "scontrol", ""});
  if (all->out.find(token.text) != std::string::npos)
    return definite({"squeue does not show a job that scontrol shows", token.text,
                     "look for SQUEUE_* in the environment and at the squeue in PATH"});
  return std::optional<JobId>{};
}

core::PortResult<std::optional<JobId>> SlurmScheduler::look_up(const Token& token) {
  const auto rows = queue({run_of(token)});
  if (!rows) return definite(rows.error());
  return find_token(*rows, token);
}

SlurmScheduler::Before SlurmScheduler::before_submission(const core::SubmitRequest& request) {
  const std::vector<core::RunGrounds> grounds{core::grounds_of(request.policy)};
  const auto rows = guarded_queue({request.policy.run}, grounds);
  if (!rows) return {std::nullopt, rows.error()};
  const auto found = find_token(*rows, request.submit.token);
  if (const auto* error = std::get_if<core::PortError>(&found)) return {std::nullopt, error->error};
  if (const auto& job = std::get<std::optional<JobId>>(found)) return {job, std::nullopt};
  const auto rivals = rivals_in(*rows, grounds);
  if (const auto& lines = rivals.at(request.policy.run); !lines.empty())
    return {std::nullopt, Error{"not submitted beside " + lines.front(), request.policy.run.text,
                                "cancel or rename the one that is not wanted"}};
  return {};
}

Status SlurmScheduler::write_script(const core::SubmitRequest& request,
                                    const Submission& prepared) {
  if (prepared.text.empty()) return ok();
  STOKER_TRY_STATUS(files_.make_directories(request.policy.directory + "/batch", 0700));
  return files_.replace(prepared.argv.back(), prepared.text);
}

Result<os::CommandOutput> SlurmScheduler::call_sbatch(const Submission& prepared, bool test_only) {
  os::SpawnOptions sbatch = client_call(prepared.argv, options_.environment);
  if (test_only) {  // a refused try stays in the queue as FAILED: it must not carry the token
    const std::vector<std::string> more{"--test-only", "--job-name=stoker-test",
                                        "--comment=stoker-test"};
    sbatch.argv.insert(sbatch.argv.end() - 1, more.begin(), more.end());
  }
  sbatch.working_directory = prepared.folder;
  for (const auto& [name, value] : prepared.environment) sbatch.environment[name] = value;
  return run(sbatch);
}

// Tried only where nodes are excluded for evidence; RUN.yaml's own list stays.
bool SlurmScheduler::starves(const core::SubmitRequest& request, const Submission& prepared) {
  core::SubmitRequest all = request;
  all.submit.exclude = known_nodes(request.policy.scheduler.exclude);
  if (all.submit.exclude == request.submit.exclude) return false;
  const auto with = call_sbatch(prepared, true);
  if (!with || !leaves_too_few_nodes(*with)) return false;
  const auto without = prepare(all);
  if (!without || !write_script(all, *without)) return false;
  const auto answer = call_sbatch(*without, true);
  const bool taken = answer && answer->status.ok();
  return taken || !write_script(request, prepared);
}

core::PortResult<JobId> SlurmScheduler::submit(const core::SubmitRequest& request) {
  core::SubmitRequest possible = request;
  possible.submit.exclude = known_nodes(request.submit.exclude);
  const auto prepared = prepare(possible);
  if (!prepared) return definite(prepared.error());
  const Before before = before_submission(request);
  if (before.error) return definite(*before.error);
  if (before.job) return *before.job;
  if (const Status written = write_script(request, *prepared); !written)
    return definite(written.error());
  if (starves(possible, *prepared))
    return core::PortError{{"its exclusions leave too few nodes, as sbatch --test-only says",
                            request.policy.run.text, "include nodes again"},
                           core::Certainty::Definite,
                           true};
  const auto output = call_sbatch(*prepared, false);
  if (!output)
    return never_started(output.error())
               ? definite(output.error())
               : core::PortError{output.error(), core::Certainty::Unknown};
  return judge_submit(*output);
}

}  // namespace stoker::slurm
