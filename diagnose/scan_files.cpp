// Threads take the next file by a counter; a log has place i of the inputs until all are done.
#include "diagnose/scan_files.hpp"

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>

namespace stoker::diagnose {

namespace {
bool may_be_unknown(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& f) { return f.failure_class == FailureClass::Unknown; });
}
}  // namespace

ScannedFiles scan_files(const Detector& detector, const std::vector<ScanInput>& inputs,
                        unsigned threads) {
  std::vector<std::optional<Result<ScannedLog>>> results(inputs.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    ScanDesk desk(detector);
    for (std::size_t i = next++; i < inputs.size(); i = next++) {
      auto& result = results[i];
      result = scan_file(detector, desk, inputs[i].path, 0, inputs[i].kernel_log);
      // Only of a failure that no rule knows the last lines are shown; of 100,000 logs they would
      // be 500 MB.
      if (*result && !may_be_unknown((*result)->findings))
        std::vector<std::string>().swap((*result)->last_lines);
    }
  };
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  threads = static_cast<unsigned>(std::min<std::size_t>(threads, inputs.size()));
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (auto& thread : others) thread.join();

  ScannedFiles all;
  for (auto& result : results) {
    if (!*result) {
      all.errors.push_back(result->error());
      continue;
    }
    const auto place = static_cast<std::uint32_t>(all.logs.size());
    for (auto& finding : (*result)->findings) finding.file = place;
    all.logs.push_back(std::move(**result));
  }
  return all;
}

}  // namespace stoker::diagnose
