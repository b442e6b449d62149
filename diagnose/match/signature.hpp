// Signature: one way in which one piece of software reports one thing, as data
// (configs/signatures/*.yaml, one file a family). A pattern is an RE2 expression for one line; it
// must also be one that Vectorscan understands (no look-around, no back references). A leading '^'
// means the start of the message: behind time stamps, host names and rank labels. Named groups
// fill a finding: node, rank, ranks, local_rank, gpu_pci.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "configs/schema/diagnostic.hpp"
#include "diagnose/cause/failure_class.hpp"

namespace stoker::diagnose {

// Who reads more out of a line than the named groups: kernel (diagnose/parse/kernel_line.hpp and
// the Xid catalogue), traceback (remembers that a Python stack is being printed), elastic_row (a
// line of torchelastic's table), elastic_signal (its word on a row), overflow (a step skipped for
// its gradients), task_exit (unless it is that of a helper that a batch script runs as $(srun …)),
// ras (a report of NCCL's RAS: collectives.hpp).
enum class Decode {
  None,
  Kernel,
  Traceback,
  ElasticRow,
  ElasticSignal,
  Overflow,
  TaskExit,
  Teardown,
  Ras
};

struct Signature {
  std::string family, name;
  FailureClass failure_class = FailureClass::Unknown;
  Severity severity = Severity::Fatal;
  int weight = 5;             // 1..10: of several that meet in a line or class the heaviest speaks
  double confidence = 0;      // 0..1, of a diagnosis that rests on this alone
  bool kernel = false;        // counts only in a line of the kernel log
  bool names_guilty = false;  // its node and ranks are those that failed first hand
  bool told_late = false;     // reported by a launcher, after what others say of the lost peer
  bool needs_traceback = false;  // counts only near a Python stack
  NodeSuspect node_suspect = NodeSuspect::No;
  Decode decode = Decode::None;
  std::string pattern;
  bool has_advice = false;  // else that of the class
  Advice advice;
  std::string source;  // where the software's text can be read
  std::string example, counter_example;
};

// A site's signatures are judged as they are read (signature_lint.hpp); ours are by the tests.
enum class Lint { No, Yes };

// Reads one family; what is wrong is appended to `errors`. Names must be unique among `known`.
std::vector<Signature> read_signatures(std::string_view text, const std::string& file,
                                       const std::vector<Signature>& known,
                                       configs::Diagnostics& errors, Lint lint = Lint::No);

}  // namespace stoker::diagnose

template <>
struct stoker::EnumNames<stoker::diagnose::Decode> {
  static constexpr std::array names{"none",        "kernel",         "traceback",
                                    "elastic_row", "elastic_signal", "overflow",
                                    "task_exit",   "teardown",       "ras"};
};
