#include "slurm/submission.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "slurm/batch_script.hpp"

namespace stoker::slurm {
namespace {

// A script runs unchanged: its own lines say what it needs. One job at a time, never requeued by
// SLURM, which would run it beside our next submission.
Submission existing_script(const core::SubmitRequest& request) {
  const core::Submit& submit = request.submit;
  const std::string& script = request.policy.train.batch_script;
  Submission out;
  out.folder = script.substr(0, script.rfind('/'));
  out.environment = request.policy.train.environment;
  out.is_array = submit.array_tasks > 1;
  out.argv = {"sbatch", "--parsable"};
  const auto add = [&out](std::string_view name, std::string_view value) {
    out.argv.push_back(fmt::format("--{}={}", name, value));
  };
  add("job-name", request.policy.run.text);
  add("comment", submit.token.text);
  if (submit.array_tasks > 1) add("array", fmt::format("1-{}%1", submit.array_tasks));
  add("dependency",
      submit.dependency.empty() ? "singleton" : fmt::format("singleton,{}", submit.dependency));
  add("open-mode", "append");
  out.argv.emplace_back("--no-requeue");
  if (!submit.begin.empty()) add("begin", submit.begin);
  if (!submit.exclude.empty()) add("exclude", compress_hostlist(submit.exclude));
  for (const std::string& option : extra_options(request)) out.argv.push_back(option);
  out.argv.push_back(script);
  return out;
}

}  // namespace

Result<Submission> prepare(const core::SubmitRequest& request) {
  if (!core::has_agents(request.policy)) return existing_script(request);
  Submission out;
  STOKER_TRY(text, batch_script(request));
  out.text = std::move(text);
  out.is_array = request.submit.array_tasks > 1;
  out.argv = {"sbatch", "--parsable", script_path(request)};
  return out;
}

}  // namespace stoker::slurm
