#include "slurm/job_steps.hpp"

#include <charconv>

#include "common/hostlist.hpp"

namespace stoker::slurm {
namespace {

constexpr char kSeparator = '\x1f';

Unexpected torn(std::string_view line) {
  return fail("a line that is no step", std::string(line.substr(0, 120)),
              "such an answer is not used");
}

// "4711_1.0", "4711.batch"
bool read_id(std::string_view text, JobStep& step) {
  const auto dot = text.find('.');
  if (dot == std::string_view::npos || dot + 1 == text.size()) return false;
  const std::string_view job = text.substr(0, dot);
  const auto bar = job.find('_');
  const std::string_view array = job.substr(0, bar);
  const auto whole = [](std::string_view digits, auto& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return !digits.empty() && error == std::errc{} && end == digits.data() + digits.size();
  };
  if (!whole(array, step.job.job)) return false;
  if (bar != std::string_view::npos && !whole(job.substr(bar + 1), step.job.task)) return false;
  step.step = text.substr(dot + 1);
  return true;
}

bool read_nodes(std::string_view text, JobStep& step) {
  if (text.empty() || text == "(null)") return true;
  auto nodes = expand_hostlist(text);
  if (!nodes) return false;
  step.nodes = std::move(*nodes);
  return true;
}

std::string_view value_of(std::string_view record, std::string_view key) {
  for (std::size_t at = 0; (at = record.find(key, at)) != std::string_view::npos; at += key.size())
    if (at == 0 || record[at - 1] == ' ') {
      const std::string_view rest = record.substr(at + key.size());
      return rest.substr(0, rest.find(' '));
    }
  return {};
}

bool read_line(std::string_view line, JobStep& step) {
  const auto first = line.find(kSeparator);
  if (first == std::string_view::npos) return false;
  const auto second = line.find(kSeparator, first + 1);
  if (second == std::string_view::npos) return false;
  step.name = line.substr(second + 1);
  return read_id(line.substr(0, first), step) &&
         read_nodes(line.substr(first + 1, second - first - 1), step);
}

bool read_record(std::string_view line, JobStep& step) {
  step.name = value_of(line, "Name=");
  return line.starts_with("StepId=") && read_id(value_of(line, "StepId="), step) &&
         read_nodes(value_of(line, "NodeList="), step);
}

template <class Read>
Result<std::vector<JobStep>> each_line(std::string_view text, Read read) {
  std::vector<JobStep> steps;
  if (!text.empty() && text.back() != '\n') return torn(text.substr(text.rfind('\n') + 1));
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    if (line.empty()) continue;
    JobStep step;
    if (!read(line, step)) return torn(line);
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

std::vector<std::string> steps_command(const JobId& job) {
  return {"squeue", "-a", "-h", "-s", "-j", job.text(), "-o", "%i\x1f%N\x1f%j"};
}

Result<std::vector<JobStep>> parse_steps(std::string_view text) {
  return each_line(text, read_line);
}

Result<std::vector<JobStep>> parse_step_records(std::string_view text) {
  return each_line(text, read_record);
}

}  // namespace stoker::slurm
