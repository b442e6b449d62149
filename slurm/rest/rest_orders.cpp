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

// Orders about a list of jobs came with SLURM 23.11 or after it; measured: v0.0.40 to v0.0.42 of
// 24.11.5.
constexpr int kJobLists = 40;
// The newest that was seen to signal steps alone: a server that does not know a flag reports that
// and signals all the same.
constexpr int kNewestMeasured = 42;
constexpr std::uint64_t kNoSuchJob = 2017, kAlreadyDone = 2021;  // slurm_errno.h

// What went wrong with one of the jobs, "" = nothing. Errors about jobs that are over, or in
// another state than the order is about, do not count.
std::string refused_in(const Json& document) {
  const auto status = document.find("status");
  if (status == document.end() || !status->is_array()) return "";
  for (const Json& job : *status) {
    if (!job.is_object()) continue;
    const auto error = job.find("error");
    if (error == job.end() || !error->is_object()) continue;
    const auto code = number_of(*error, "code").value_or(0);
    const std::string said = text_of(*error, "message");
    const bool other_state = said.find("filter state") != std::string::npos;
    if (code == 0 || code == kNoSuchJob || code == kAlreadyDone || other_state) continue;
    return said.empty() ? fmt::format("error {}", code) : said.substr(0, 160);
  }
  return "";
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

// Only of our user's jobs: 24.11.5's slurmctld answers no one any more after an order about another
// user's job that has no such filter.
RestController::Outcome RestController::order_jobs(const JobId& job, const Json& more) {
  Json body = more;
  body["jobs"] = Json::array({job.text()});
  if (!options_.user.empty()) body["user_name"] = options_.user;
  return exchange("DELETE", "jobs/", dump_json(body));
}

bool RestController::has_no_such_order(const Outcome& outcome) {
  const auto* lost = std::get_if<Lost>(&outcome);
  return lost != nullptr && (lost->status == 404 || lost->status == 405);
}

core::PortResult<std::monostate> RestController::judge_order(const Outcome& outcome,
                                                             const std::string& id) const {
  if (const auto* lost = std::get_if<Lost>(&outcome)) return in_doubt(lost->error, lost->reached);
  const auto& reply = std::get<Reply>(outcome);
  const std::string refused = refused_in(reply.document);
  const bool over = reply.denied || reply.said.find("already complet") != std::string::npos;
  if (over || (reply.status == 200 && reply.said.empty() && refused.empty()))
    return std::monostate{};
  return in_doubt({fmt::format("slurmrestd did not do it ({}): {}", reply.status,
                               reply.said.empty() ? refused : reply.said),
                   id, ""},
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

core::PortResult<std::monostate> RestController::cancel_waiting(const JobId& job) {
  const auto reply = ask_job(job.text());
  if (!reply) return definite(reply.error());
  if (reply->denied) return std::monostate{};
  for (const std::string& id : waiting_in(*reply, job)) {
    auto done = judge_order(exchange("DELETE", "job/" + escaped(id), ""), id);
    if (std::holds_alternative<core::PortError>(done)) return done;
  }
  return std::monostate{};
}

core::PortResult<std::monostate> RestController::cancel(const JobId& job, bool pending_only) {
  const auto version = api();
  if (!version) return definite(version.error());
  if (*version >= kJobLists) {
    const Outcome outcome =
        order_jobs(job, pending_only ? Json{{"job_state", {"PENDING"}}} : Json::object());
    if (!has_no_such_order(outcome)) return judge_order(outcome, job.text());
  }
  if (pending_only) return cancel_waiting(job);
  return judge_order(exchange("DELETE", "job/" + escaped(job.text()), ""), job.text());
}

// v0.0.38 signals the batch script too, which ends a shell that has no trap (22.05.8).
core::PortResult<std::monostate> RestController::signal(const JobId& job, const std::string& name) {
  const auto version = api();
  if (!version) return definite(version.error());
  if (*version >= kJobLists && *version <= kNewestMeasured) {
    const Outcome outcome = order_jobs(job, {{"signal", name}, {"flags", {"FULL_STEPS_ONLY"}}});
    if (!has_no_such_order(outcome)) return judge_order(outcome, job.text());
  }
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
