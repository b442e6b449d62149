// A pass over the queue of 20,000 jobs as squeue and as slurmrestd write it, and a hostlist of
// 100,000 nodes: time (the median of eleven) and how much memory the pass adds. One JSON line.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>

#include "common/hostlist.hpp"
#include "slurm/queue_poll.hpp"
#include "slurm/rest/job_rows.hpp"
#include "slurm/rivals.hpp"

namespace {

using namespace stoker;
constexpr int kTimes = 11;
constexpr int kJobs = 20'000, kRuns = 50, kNodes = 100'000;

// A busy cluster: jobs of everybody, each on 48 nodes; every 400th is one of ours.
std::string queue_text() {
  std::string text;
  for (int i = 0; i < kJobs; ++i) {
    const bool ours = i % (kJobs / kRuns) == 0;
    const std::string name =
        ours ? fmt::format("run{}", i * kRuns / kJobs) : fmt::format("job of user {}", i % 300);
    text += fmt::format(
        "{0}|{0}|{1}|{2}|{3}|1700000000|1700072000|1699990000|{4}|{5}|{6}|/home/u/{0}/train.slurm|"
        "{7}|{8}\n",
        1'000'000 + i, i % 3 == 0 ? "1" : "N/A", i % 4 == 0 ? "PENDING" : "RUNNING",
        i % 4 == 0 ? "Priority" : "None", i % 4 == 0 ? "" : "r2i[0-3]n[00-11]", 1000 + i % 300,
        ours ? "alice" : "bob", name, ours ? name + "-1-00000000" : "a comment of this length");
  }
  std::replace(text.begin(), text.end(), '|', '\x1f');
  return text;
}

// The same queue as slurmrestd writes it: a captured job, with what differs put in.
std::vector<std::string> queue_json(const std::string& captured) {
  const auto answer = parse_json(captured, "the captured answer");
  Json job = answer ? answer->at("jobs").at(0) : Json();
  std::vector<std::string> pieces{"{\"errors\": [], \"jobs\": ["};
  for (int i = 0; i < kJobs; ++i) {
    const bool ours = i % (kJobs / kRuns) == 0;
    job["job_id"] = 1'000'000 + i;
    job["array_job_id"] = 0;
    job["array_task_string"] = "";
    job["user_name"] = ours ? "alice" : "bob";
    job["name"] =
        ours ? fmt::format("run{}", i * kRuns / kJobs) : fmt::format("job of user {}", i % 300);
    pieces.push_back((i == 0 ? "" : ",") + job.dump(2));
  }
  pieces.emplace_back("]}");
  return pieces;
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
template <class F>
double median_ms(F&& work) {
  std::vector<double> times;
  for (int i = 0; i < kTimes; ++i) {
    const double before = now_ms();
    work();
    times.push_back(now_ms() - before);
  }
  std::sort(times.begin(), times.end());
  return times[kTimes / 2];
}

double peak_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (double kb = 0; word == "VmHWM:" && status >> kb) return kb / 1024;
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  std::ifstream file(count > 1 ? arguments[1] : "");
  const auto pieces =
      queue_json({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
  std::size_t json_bytes = 0;
  for (const std::string& piece : pieces) json_bytes += piece.size();
  std::size_t json_rows = 0;
  const double before_json = peak_mb();
  const double json = median_ms([&] {
    slurm::QueueQuestion question;
    for (int i = 0; i < kRuns; ++i) question.names.emplace_back(fmt::format("run{}", i));
    slurm::JobRows found(question);
    slurm::JsonItems items("jobs", [&](const slurm::JsonItem& job) { return found.add(job); });
    for (const std::string& piece : pieces)
      if (!items.feed(piece)) return;
    json_rows = items.finish() ? found.take().size() : 0;
  });
  const double json_memory = peak_mb() - before_json;
  const double before = peak_mb();
  const std::string text = queue_text();
  std::vector<RunName> names;
  std::vector<core::RunGrounds> grounds;
  std::vector<std::string> folders;
  for (int i = 0; i < kRuns; ++i) {
    names.emplace_back(fmt::format("run{}", i));
    folders.push_back(fmt::format("/gpfs/run{}/batch/", i));
    folders.push_back(fmt::format("/gpfs/run{}/checkpoints/", i));
    grounds.push_back({names.back(), {folders.end()[-2], folders.end()[-1]}, ""});
  }
  std::size_t rows = 0;
  const double queue = median_ms([&] {
    const auto parsed = slurm::parse_queue(text, names, folders);
    rows = parsed ? parsed->size() : 0;
    if (parsed)
      (void)slurm::find_rivals(*parsed, grounds, "alice", {}, [](auto&, auto&) { return true; });
  });
  const double memory = peak_mb() - before;
  const std::string list = fmt::format("n[000001-{:06}]", kNodes);
  std::size_t nodes = 0;
  const double hosts = median_ms([&] {
    auto expanded = expand_hostlist(list);
    nodes = expanded ? expanded->size() : 0;
    if (expanded && compress_hostlist(std::move(*expanded)) != list) nodes = 0;
  });
  if (rows != kRuns || json_rows != kRuns || nodes != kNodes) {
    std::fprintf(stderr, "slurm_speed: %zu rows, %zu of slurmrestd and %zu nodes were read\n", rows,
                 json_rows, nodes);
    return 1;
  }
  fmt::print(
      "{{\"queue_ms\": {:.3f}, \"queue_mb\": {:.2f}, \"text_mb\": {:.2f}, "
      "\"hostlist_ms\": {:.3f}, \"rest_ms\": {:.3f}, \"rest_mb\": {:.2f}, \"json_mb\": {:.1f}}}\n",
      queue, memory, static_cast<double>(text.size()) / (1 << 20), hosts, json, json_memory,
      static_cast<double>(json_bytes) / (1 << 20));
  return 0;
}
