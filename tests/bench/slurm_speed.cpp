// A pass over squeue's output of 20,000 jobs, and a hostlist of 100,000 nodes: time (the median of
// eleven) and how much memory the pass adds. One JSON line.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <fstream>

#include "common/hostlist.hpp"
#include "slurm/queue_poll.hpp"
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

int main() {
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
  if (rows != kRuns || nodes != kNodes) {
    std::fprintf(stderr, "slurm_speed: %zu rows and %zu nodes were read\n", rows, nodes);
    return 1;
  }
  fmt::print(
      "{{\"queue_ms\": {:.3f}, \"queue_mb\": {:.2f}, \"text_mb\": {:.2f}, "
      "\"hostlist_ms\": {:.3f}}}\n",
      queue, memory, static_cast<double>(text.size()) / (1 << 20), hosts);
  return 0;
}
