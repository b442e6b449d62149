// The ports in memory.
#include "sim/ports.hpp"

#include <fmt/format.h>

#include "common/hash.hpp"

namespace stoker::sim {

Status SimFiles::writable(const std::string& path) const {
  if (refuses(path)) return fail(errno_error(error_, "cannot write", path));
  return ok();
}

bool SimFiles::refuses(const std::string& path) const {
  return !refused_.empty() && path.find(refused_) != std::string::npos;
}

Result<std::string> SimFiles::read(const std::string& path, std::size_t limit) {
  if (error_ == ESTALE && refuses(path)) return fail(errno_error(ESTALE, "cannot read", path));
  const auto found = content.find(path);
  if (found == content.end()) return fail("no such file", path);
  return found->second.substr(0, limit);
}

Status SimFiles::replace(const std::string& path, std::string_view text) {
  STOKER_TRY_STATUS(writable(path));
  content[path] = std::string(text);
  return ok();
}

Status SimFiles::append(const std::string& path, std::string_view text) {
  STOKER_TRY_STATUS(writable(path));
  content[path] += text;
  return ok();
}

Result<bool> SimFiles::create_once(const std::string& path, std::string_view text) {
  if (content.contains(path)) return false;
  STOKER_TRY_STATUS(writable(path));
  content[path] = std::string(text);
  return true;
}

Result<bool> SimFiles::exists(const std::string& path) {
  return content.contains(path);
}

Status SimFiles::rename(const std::string& from, const std::string& to) {
  const auto found = content.find(from);
  if (found == content.end()) return fail("no such file", from);
  STOKER_TRY_STATUS(writable(to));
  content[to] = found->second;
  content.erase(from);
  return ok();
}

Status SimFiles::remove_folder(const std::string& base, const std::string& folder,
                               const std::vector<std::string>& files) {
  const std::string path = base + "/" + folder + "/";
  STOKER_TRY_STATUS(writable(path));
  for (const std::string& file : files) content.erase(path + file);
  return ok();
}

Status SimFiles::make_directories(const std::string&, unsigned) {
  return ok();
}

Result<std::vector<std::string>> SimFiles::list(const std::string& path) {
  if (error_ == ESTALE && refuses(path + "/"))
    return fail(errno_error(ESTALE, "cannot list", path));
  std::vector<std::string> names = below(path + "/");
  std::erase_if(names, [](const std::string& name) { return name.find('/') != std::string::npos; });
  return names;
}

std::vector<std::string> SimFiles::below(const std::string& prefix) const {
  std::vector<std::string> names;
  for (auto at = content.lower_bound(prefix); at != content.end() && at->first.starts_with(prefix);
       ++at)
    names.push_back(at->first.substr(prefix.size()));
  return names;
}

Result<std::string> SimFiles::tree(const std::string& path) {
  if (refuses(path + "/")) return fail(errno_error(error_, "cannot list", path));
  std::string all;
  for (const auto& [name, text] : content)
    if (name.starts_with(path + "/")) all += fmt::format("{} {:016x}\n", name, xxh3_64(text));
  return fmt::format("{:016x}", xxh3_64(all));
}

Status SimAlerts::accept(const EffectKey& key, const core::SendAlert& alert,
                         const core::AlertPolicy&) {
  accepted.emplace(key, alert);
  return ok();
}

core::PortResult<JobId> SimScheduler::submit(const core::SubmitRequest& request) {
  for (const auto& [id, submitted] : jobs_)  // as the real ones look its token up before
    if (submitted.token == request.submit.token) return JobId{id, 0};
  const NextSubmit how = next_;
  next_ = NextSubmit::Works;
  if (how == NextSubmit::Refused)
    return core::PortError{{"sbatch: error: Invalid account", request.policy.run.text, ""},
                           core::Certainty::Definite};
  if (how == NextSubmit::Starved)
    return core::PortError{{"its exclusions leave too few nodes", request.policy.run.text, ""},
                           core::Certainty::Definite,
                           true};
  const core::PortError no_answer{{"sbatch: no answer within 60s", request.policy.run.text, ""},
                                  core::Certainty::Unknown};
  if (how == NextSubmit::LostRequest) return no_answer;
  jobs_[++last_] = request.submit;
  if (how == NextSubmit::LostAnswer) return no_answer;
  return JobId{last_, 0};
}

core::PortResult<std::monostate> SimScheduler::cancel(const core::Cancel& cancel) {
  if (blind_)
    return core::PortError{{"scancel: no answer", cancel.job.text(), ""}, core::Certainty::Unknown};
  if (refuses_cancels_)
    return core::PortError{{"Job/step already completing", cancel.job.text(), ""},
                           core::Certainty::Definite};
  if (cancel.whole_array && !cancel.pending_only) cancelled_.insert(cancel.job.job);
  return std::monostate{};
}

core::PortResult<std::monostate> SimScheduler::set_exclusions(const core::SetExclusions& change) {
  if (blind_)
    return core::PortError{{"scontrol: no answer", change.job.text(), ""},
                           core::Certainty::Unknown};
  if (const auto job = jobs_.find(change.job.job); job != jobs_.end())
    job->second.exclude = change.nodes;
  return std::monostate{};
}

core::PortResult<std::string> SimScheduler::drain(const core::DrainNode& drain) {
  if (blind_)
    return core::PortError{{"sinfo: no answer", drain.node.text, ""}, core::Certainty::Definite};
  if (refuses_drains_)
    return core::PortError{{"Invalid user id", drain.node.text, ""},
                           core::Certainty::Definite,
                           false,
                           "scontrol update NodeName=" + drain.node.text};
  return std::string(drain.lift ? "back in service" : "drained");
}

core::PortResult<std::monostate> SimScheduler::signal(const core::SignalJob& signal) {
  if (blind_)
    return core::PortError{{"scancel: no answer", signal.job.text(), ""}, core::Certainty::Unknown};
  return std::monostate{};
}

core::JobProbed SimScheduler::probe(const core::ProbeRequest& request) {
  core::JobProbed out;
  out.token = request.probe.token;
  out.job = request.probe.job;
  if (blind_ || probed_ == Probed::Unknown) {
    out.why = "squeue: no answer";
    return out;
  }
  out.told = true;
  out.batch_left = probed_ == Probed::BatchLeft;
  if (probed_ != Probed::Empty) out.steps = {out.job.text() + ".0"};
  out.asked = static_cast<std::uint32_t>(request.probe.nodes.size());
  if (probed_ == Probed::Mute) {
    out.mute = request.probe.nodes;
    out.why = "srun: timed out";
    return out;
  }
  out.answered = out.asked;
  if (probed_ == Probed::Runs) out.processes = out.asked;
  if (out.processes > 0) out.stacks = request.folder;
  return out;
}

core::PortResult<std::optional<JobId>> SimScheduler::look_up(const Token& token) {
  if (blind_)
    return core::PortError{{"squeue: no answer", token.text, ""}, core::Certainty::Unknown};
  for (const auto& [job, submit] : jobs_)
    if (submit.token == token) return std::optional<JobId>(JobId{job, 0});
  return std::optional<JobId>{};
}

Result<core::SchedulerView> SimScheduler::observe(const std::vector<RunName>&) {
  if (blind_) return fail("squeue: no answer", "scheduler");
  return core::SchedulerView{};
}

Token SimScheduler::token_of(std::uint64_t job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? Token{} : found->second.token;
}

}  // namespace stoker::sim
