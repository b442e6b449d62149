// Diagnosis: one cause for everything that the logs of a run say; `stoker diagnose --json`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/json.hpp"
#include "diagnose/cause/cause_rules.hpp"
#include "diagnose/match/finding.hpp"

namespace stoker::diagnose {

struct Evidence {
  FailureClass failure_class = FailureClass::Unknown;
  std::string file;
  std::uint64_t line = 0;
  std::string text;
  std::uint64_t count = 1;                        // lines of this class, in all files
  std::optional<std::int64_t> first_ms, last_ms;  // of the root: when it came, where known
};

struct Diagnosis {
  FailureClass failure_class = FailureClass::Healthy;
  double confidence = 0.5;  // 0..1; calibrated on captured logs (tests/diagnose/accuracy_test.cpp)
  bool fatal = false;
  bool from_kernel = false;  // the root is the kernel's own word
  std::string summary;       // one sentence
  std::optional<Evidence> root;
  std::string node;                   // of the root
  std::optional<std::uint32_t> rank;  // of the root
  std::string collective;             // which rank did not enter which collective; "" = not known
  std::string stacks;                 // which ranks stand elsewhere than the others; "" = not known
  std::string gpu_pci;
  std::vector<int> xids;           // of the root's GPU, in order of arrival
  std::vector<Evidence> followed;  // the first line of each further class, in order
  std::vector<std::string> nodes;
  std::vector<std::uint32_t> ranks;
  Advice advice;
  std::vector<std::string> exclude;     // nodes to leave out
  std::uint64_t last_iteration = 0;     // 0 = none was seen
  std::vector<std::string> last_lines;  // of an `unknown`: what stands at the end
  std::vector<std::string> notes;       // what could not be read, what was assumed
};

// Pure. Logs are in the order of the inputs.
Diagnosis find_cause(const std::vector<ScannedLog>& logs, const CauseRules& rules);

Json to_json_object(const Diagnosis& diagnosis);

}  // namespace stoker::diagnose
