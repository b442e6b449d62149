// Finding: one thing that a log says, with its place; repeats of it are counted, not kept.
// ScannedLog: everything that the cause ranking needs to know about one file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/cause/collectives.hpp"
#include "diagnose/cause/gpu_places.hpp"
#include "diagnose/match/signature.hpp"

namespace stoker::diagnose {

struct Finding {
  const Signature* signature = nullptr;  // null: found in the iteration lines (loss_watch.hpp)
  FailureClass failure_class = FailureClass::Unknown;
  Severity severity = Severity::Fatal;
  int weight = 5;
  double confidence = 0.5;
  NodeSuspect node_suspect = NodeSuspect::No;
  std::uint32_t file = 0;  // place in the list of inputs
  std::uint64_t line = 0;  // from 1
  std::string text;        // without terminal sequences, cut
  std::string node;
  std::vector<std::uint32_t> ranks;
  std::string gpu_pci;  // "0000:cb:00"
  int xid = 0;          // of Xid and SXid; 0 = none
  std::string meaning;  // of the code
  std::optional<Advice> advice;
  std::optional<std::int64_t> time_ms;
  std::uint64_t count = 1;
  std::uint64_t last_line = 0;
  std::optional<std::int64_t> last_time_ms;
  bool from_kernel = false;
  bool in_passing = false;  // in a line logged as information: counts where something else failed
  // Means little where iterations are printed: kernel words without a header, peers that leave.
  bool only_without_iterations = false;
};

// A row of torchelastic's table of failed workers.
struct ElasticRow {
  std::uint64_t line = 0;
  std::string host;
  std::optional<std::uint32_t> rank;
  std::optional<int> exit_code;
  bool root = false;  // "Root Cause (first observed failure)"
};

struct ScannedLog {
  std::string name;
  bool kernel_log = false;
  bool binary = false;            // no text: that nothing was found in it says nothing
  std::vector<Finding> findings;  // by line
  std::vector<ElasticRow> elastic;
  std::vector<CollectiveReport> collectives;
  std::vector<GpuPlace> gpus;  // which rank computes on which GPU
  std::string stacks;          // the text, when the file is a stack dump of one rank
  std::string node;            // whose file it is, as its path says; "" = unknown
  std::optional<std::uint32_t> rank;
  std::uint64_t lines = 0;
  std::uint64_t iteration_lines = 0;
  std::uint64_t last_iteration = 0;  // its number
  // Two further iterations were finished after this line (0: never two): what stands before it did
  // not stop the training.
  std::uint64_t progressed_line = 0;
  std::uint64_t success_line = 0;  // of the last line that ends a run well, 0 = none
  std::optional<std::int64_t> first_time_ms, last_time_ms;  // of its first and last lines with one
  std::vector<std::string> last_lines;                      // informative ones, at the end
  std::vector<std::string> notes;  // what could not be read, what was assumed
};

}  // namespace stoker::diagnose
