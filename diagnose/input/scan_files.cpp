// Threads take the next file by a counter; a log has place i of the inputs until all are done.
#include "diagnose/input/scan_files.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>

namespace stoker::diagnose {

namespace {
bool may_be_unknown(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.failure_class == FailureClass::Unknown; });
}
}  // namespace

ScannedFiles scan_files(const Detector& detector, std::vector<ScanInput> inputs, unsigned threads) {
  ScannedFiles all;
  all.logs.resize(inputs.size());
  std::vector<std::unique_ptr<Error>> failed(inputs.size());  // few
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    ScanDesk desk(detector);
    for (std::size_t i = next++; i < inputs.size(); i = next++) {
      const std::string path = std::exchange(inputs[i].path, {});  // the log has its name from now
      auto log = scan_file(detector, desk, path, 0, inputs[i].kernel_log, inputs[i].links);
      if (!log) {
        failed[i] = std::make_unique<Error>(log.error());
        continue;
      }
      // Only of a failure that no rule knows the last lines are shown; of 100,000 logs they would
      // be 500 MB.
      if (!may_be_unknown(log->findings)) std::vector<std::string>().swap(log->last_lines);
      all.logs[i] = std::move(*log);
    }
  };
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  threads = static_cast<unsigned>(std::min<std::size_t>(threads, inputs.size()));
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();

  std::size_t read = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (failed[i]) {
      all.errors.push_back(std::move(*failed[i]));
      continue;
    }
    for (auto& finding : all.logs[i].findings) finding.file = static_cast<std::uint32_t>(read);
    if (read != i) all.logs[read] = std::move(all.logs[i]);
    ++read;
  }
  all.logs.resize(read);
  return all;
}

}  // namespace stoker::diagnose
