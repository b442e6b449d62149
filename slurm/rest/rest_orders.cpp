// What slurmrestd is ordered to do: submit, cancel, exclude. An order that it may have carried out
// although no answer came is Unknown.
#include <algorithm>
#include <fmt/format.h>

#include "slurm/client_call.hpp"
#include "slurm/json_shapes.hpp"
#include "slurm/rest/rest_controller.hpp"
#include "slurm/rest/rest_submission.hpp"
#include "slurm/submit_answer.hpp"

namespace stoker::slurm {
namespace {

core::PortError definite(Error error) {
  return {std::move(error), core::Certainty::Definite};
}

core::PortError in_doubt(Error error, bool reached) {
  return {std::move(error), reached ? core::Certainty::Unknown : core::Certainty::Definite};
}

// What sbatch would hand on: this process's, without SLURM's own, and the run's.
std::map<std::string, std::string> job_environment(const std::map<std::string, std::string>& ours,
                                                   const Submission& prepared) {
  auto out = clean_environment(ours);
  for (const char* name : {"SLURM_CONF", "SLURM_TIME_FORMAT", "LC_ALL"}) out.erase(name);
  if (const auto locale = ours.find("LC_ALL"); locale != ours.end()) out["LC_ALL"] = locale->second;
  if (!prepared.folder.empty()) out["SLURM_SUBMIT_DIR"] = prepared.folder;
  for (const auto& [name, value] : prepared.environment) out[name] = value;
  if (out.empty()) out["PATH"] = "/usr/local/bin:/usr/bin:/bin";  // an empty one is refused
  return out;
}

core::PortResult<JobId> judge_submission(long status, const Json& document, const std::string& said,
                                         const std::string& door) {
  const auto unknown = [&](const std::string& what) {
    return core::PortError{{what + ": " + said, door, "the token will be looked up"},
                           core::Certainty::Unknown};
  };
  const auto id = number_of(document, "job_id");
  if (id && *id != 0 && status == 200) return JobId{*id, 0};  // also beside warnings
  if (id && *id != 0) return unknown("slurmrestd named a job and failed");
  if (said.empty()) return unknown(fmt::format("slurmrestd answers {} and names no job", status));
  if (loses_the_controller(said)) return unknown("slurmrestd lost the controller");
  if (status != 400 && !is_refusal(said)) return unknown("slurmrestd failed without a reason");
  return definite({"slurmrestd refused: " + said, door, advice_for(said)});
}

std::string escaped(std::string_view id) {
  std::string out;
  for (const char c : id)
    if (c == '[' || c == ']' || c == ',')
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      out += c;
  return out;
}

}  // namespace

core::PortResult<JobId> RestController::submit(const Submission& prepared) {
  const auto version = api();
  if (!version) return definite(version.error());
  const std::string& script = prepared.text.empty() ? prepared.script : prepared.text;
  const auto body =
      submission_body(prepared, *version, script, job_environment(options_.environment, prepared));
  if (!body) {  // an option without a field
    if (const Status able = same_cluster(); !able) {
      Error error = body.error();
      error.hint = "leave it out, or see that sbatch is there: " + able.error().what;
      return definite(std::move(error));
    }
    return commands_->submit(prepared);
  }
  auto outcome = exchange("POST", "job/submit", dump_json(*body));
  if (const auto* lost = std::get_if<Lost>(&outcome)) return in_doubt(lost->error, lost->reached);
  const auto& reply = std::get<Reply>(outcome);
  return judge_submission(reply.status, reply.document, reply.said, door_.name());
}

Controller::Tried RestController::try_out(const Submission& prepared) {
  if (!same_cluster()) return {};
  return commands_->try_out(prepared);
}

core::PortResult<std::monostate> RestController::remove(const std::string& id) {
  auto outcome = exchange("DELETE", "job/" + escaped(id), "");
  if (const auto* lost = std::get_if<Lost>(&outcome)) return in_doubt(lost->error, lost->reached);
  const auto& reply = std::get<Reply>(outcome);
  const bool over = reply.denied || reply.said.find("already complet") != std::string::npos;
  if (over || (reply.status == 200 && reply.said.empty())) return std::monostate{};
  return in_doubt(
      {fmt::format("slurmrestd did not cancel it ({}): {}", reply.status, reply.said), id, ""},
      true);
}

// As SLURM takes them: "123_[4-10]" of what waits together, "123_7" of a task that has a record.
std::vector<std::string> RestController::waiting_in(const Reply& reply, const JobId& job) const {
  std::vector<std::string> ids;
  for (const Json& one : reply.document.at("jobs")) {
    if (!one.is_object() || !one.contains("job_state")) continue;
    if (state_in(one.at("job_state")) != core::JobState::Pending) continue;
    const auto task = number_of(one, "array_task_id");
    std::string tasks = text_of(one, "array_task_string");
    tasks.resize(std::min(tasks.find('%'), tasks.size()));
    if (task)
      ids.push_back(JobId{job.job, static_cast<std::uint32_t>(*task)}.text());
    else if (!tasks.empty())
      ids.push_back(fmt::format("{}_[{}]", job.job, tasks));
    else
      ids.push_back(std::to_string(job.job));
  }
  return ids;
}

core::PortResult<std::monostate> RestController::cancel(const JobId& job, bool pending_only) {
  if (!pending_only) return remove(job.text());
  const auto reply = ask_job(job.text());
  if (!reply) return definite(reply.error());
  if (reply->denied) return std::monostate{};
  for (const std::string& id : waiting_in(*reply, job)) {
    auto done = remove(id);
    if (std::holds_alternative<core::PortError>(done)) return done;
  }
  return std::monostate{};
}

// The API signals the batch script too, which ends a shell that has no trap (22.05.8).
core::PortResult<std::monostate> RestController::signal(const JobId& job, const std::string& name) {
  if (const Status able = same_cluster(); !able) return definite(able.error());
  return commands_->signal(job, name);
}

core::PortResult<std::string> RestController::exclude(const JobId& array,
                                                      const std::string& nodes) {
  const auto version = api();
  if (!version) return definite(version.error());
  auto outcome =
      exchange("POST", "job/" + array.text(), dump_json(exclusions_body(nodes, *version)));
  if (const auto* lost = std::get_if<Lost>(&outcome)) return in_doubt(lost->error, lost->reached);
  const auto& reply = std::get<Reply>(outcome);
  return reply.said.empty() ? fmt::format("slurmrestd answers {}", reply.status) : reply.said;
}

}  // namespace stoker::slurm
