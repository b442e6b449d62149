// Submitting: the token is looked up first, rivals are looked for, exclusions are tried out; then
// sbatch is called and its answer judged.
#include <algorithm>
#include <fmt/format.h>

#include "slurm/rivals.hpp"
#include "slurm/slurm_scheduler.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kLargestScript = 4u << 20;

core::PortError definite(Error error) {
  return {std::move(error), core::Certainty::Definite};
}

}  // namespace

core::PortResult<std::optional<JobId>> SlurmScheduler::find_token(const std::vector<QueueRow>& rows,
                                                                  const Token& token) {
  for (const QueueRow& row : rows)
    if (is_own(row, options_.user) && token_of(row) == token)
      return std::optional(JobId{row.id.job, 0});
  const auto shown = controller_->shows(token);
  if (!shown) return definite(shown.error());
  if (*shown)
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

// Tried only where nodes are excluded for evidence; RUN.yaml's own list stays.
bool SlurmScheduler::starves(const core::SubmitRequest& request, const Submission& prepared) {
  core::SubmitRequest all = request;
  all.submit.exclude = known_nodes(request.policy.scheduler.exclude);
  if (all.submit.exclude == request.submit.exclude) return false;
  if (!controller_->try_out(prepared).too_few_nodes) return false;
  const auto without = prepare(all);
  if (!without || !write_script(all, *without)) return false;
  return controller_->try_out(*without).taken || !write_script(request, prepared);
}

core::PortResult<JobId> SlurmScheduler::submit(const core::SubmitRequest& request) {
  core::SubmitRequest possible = request;
  possible.submit.exclude = known_nodes(request.submit.exclude);
  auto prepared = prepare(possible);
  if (!prepared) return definite(prepared.error());
  if (options_.rest && prepared->text.empty()) {
    auto script = files_.read(prepared->argv.back(), kLargestScript);
    if (!script) return definite(script.error());
    prepared->script = *std::move(script);
  }
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
  return controller_->submit(*prepared);
}

}  // namespace stoker::slurm
