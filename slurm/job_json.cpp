#include "slurm/job_json.hpp"

#include <charconv>

#include "common/json.hpp"
#include "slurm/job_state.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kMostJobs = 100'000;
constexpr std::uint64_t kNoValue = 0xfffffffe;  // slurm.h: NO_VAL and INFINITE, 32 bits

// 7, {"set": true, "infinite": false, "number": 7}; null, an unset one or NO_VAL: none.
std::optional<std::uint64_t> number_in(const Json& value) {
  if (value.is_object()) {
    if (!value.value("set", true) || value.value("infinite", false)) return std::nullopt;
    const auto inner = value.find("number");
    return inner == value.end() ? std::nullopt : number_in(*inner);
  }
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  return number >= kNoValue ? std::nullopt : std::optional(number);
}

std::optional<std::uint64_t> number_of(const Json& job, const char* key) {
  const auto found = job.find(key);
  return found == job.end() ? std::nullopt : number_in(*found);
}

std::string text_of(const Json& job, const char* key) {
  const auto found = job.find(key);
  return found != job.end() && found->is_string() ? found->get<std::string>() : "";
}

// "RUNNING", ["RUNNING"], ["CANCELLED", "COMPLETING"]: a flag beside the state decides, as squeue
// shows it in its place.
std::optional<core::JobState> state_of(const Json& job) {
  const auto found = job.find("job_state");
  if (found == job.end()) return std::nullopt;
  if (found->is_string()) {
    const auto word = parse_state(found->get<std::string>());
    return word ? std::optional(word->state) : std::nullopt;
  }
  if (!found->is_array() || found->empty()) return std::nullopt;
  std::optional<core::JobState> state;
  for (const Json& entry : *found) {
    const auto word = entry.is_string() ? parse_state(entry.get<std::string>()) : std::nullopt;
    if (!word) return std::nullopt;
    if (!state || core::is_terminal(*state)) state = word->state;
  }
  return state;
}

// 256 as waitpid() says; {"return_code": 1, "signal": {"signal_id": 9}}; since 23.11 with numbers
// as objects and the signal's "id".
void read_exit(const Json& job, JobDetail& out) {
  const auto found = job.find("exit_code");
  if (found == job.end()) return;
  const auto code = found->is_object() ? found->find("return_code") : found->end();
  if (!found->is_object() || code == found->end()) {
    const auto wait_status = static_cast<int>(number_in(*found).value_or(0) & 0xffff);
    out.exit_code = wait_status >> 8;
    out.signal = wait_status & 0x7f;
    return;
  }
  out.exit_code = static_cast<int>(number_in(*code).value_or(0) & 0xff);
  const auto signal = found->find("signal");
  if (signal == found->end() || !signal->is_object()) return;
  for (const char* key : {"id", "signal_id"})
    if (const auto id = number_of(*signal, key)) out.signal = static_cast<int>(*id & 0x7f);
}

// "n[01-02]", or a list of names.
std::string nodes_of(const Json& job, const char* key) {
  const auto found = job.find(key);
  if (found == job.end() || !found->is_array()) return text_of(job, key);
  std::string list;
  for (const Json& node : *found)
    if (node.is_string()) list += (list.empty() ? "" : ",") + node.get<std::string>();
  return list;
}

Result<JobDetail> read_job(const Json& job) {
  JobDetail out;
  const auto id = job.is_object() ? number_of(job, "job_id") : std::nullopt;
  const auto state = id ? state_of(job) : std::nullopt;
  if (!id || !state) return fail("JSON: a job without id or state", dump_json(job).substr(0, 120));
  out.state = *state;
  const auto array = number_of(job, "array_job_id");
  out.id.job = array && *array != 0 ? *array : *id;
  if (const auto task = number_of(job, "array_task_id"); task && array && *array != 0)
    out.id.task = static_cast<std::uint32_t>(*task);
  out.restarts = static_cast<std::uint32_t>(number_of(job, "restart_cnt").value_or(0));
  read_exit(job, out);
  out.name = text_of(job, "name");
  out.command = text_of(job, "command");
  out.output = text_of(job, "standard_output");
  out.excluded = nodes_of(job, "excluded_nodes");
  return out;
}

}  // namespace

std::vector<std::string> json_command(const JobId& job) {
  return {"scontrol", "show", "job", job.text(), "--json"};
}

Result<std::vector<JobDetail>> parse_job_json(std::string_view text) {
  STOKER_TRY(document, parse_json(text, "JSON of a job"));
  const auto jobs = document.is_object() ? document.find("jobs") : document.end();
  if (!document.is_object() || jobs == document.end() || !jobs->is_array())
    return fail("JSON: no list of jobs", "scontrol");
  if (jobs->size() > kMostJobs) return fail("JSON: too many jobs", "scontrol");
  std::vector<JobDetail> out;
  for (const Json& job : *jobs) {
    STOKER_TRY(detail, read_job(job));
    out.push_back(std::move(detail));
  }
  return out;
}

bool scontrol_writes_json(std::string_view version) {
  int year = 0, month = 0;
  const char* end = version.data() + version.size();
  const auto [dot, error] = std::from_chars(version.data(), end, year);
  if (error != std::errc{} || dot == end || *dot != '.') return false;
  std::from_chars(dot + 1, end, month);
  return year * 100 + month >= 2302;
}

}  // namespace stoker::slurm
