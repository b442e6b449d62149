#include "slurm/job_json.hpp"

#include <charconv>

#include "slurm/json_shapes.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kMostJobs = 100'000;

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
  const auto found = id ? job.find("job_state") : job.end();
  const auto state = found == job.end() ? std::nullopt : state_in(*found);
  if (!id || !state) return fail("JSON: a job without id or state", dump_json(job).substr(0, 120));
  out.state = *state;
  const auto array = number_of(job, "array_job_id");
  out.id.job = array && *array != 0 ? *array : *id;
  if (const auto task = number_of(job, "array_task_id"); task && array && *array != 0)
    out.id.task = static_cast<std::uint32_t>(*task);
  out.restarts = static_cast<std::uint32_t>(number_of(job, "restart_cnt").value_or(0));
  if (const auto exit = job.find("exit_code"); exit != job.end()) {
    const ExitShape shape = exit_in(*exit);
    out.exit_code = shape.code;
    out.signal = shape.signal;
  }
  out.name = text_of(job, "name");
  out.command = text_of(job, "command");
  out.output = text_of(job, "standard_output");
  out.excluded = nodes_of(job, "excluded_nodes");
  out.nodes = nodes_of(job, "nodes");
  if (const auto ends = number_of(job, "end_time"); ends && *ends > 0 && *ends < 9'000'000'000)
    out.ends = WallTime(std::chrono::seconds(*ends));
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
