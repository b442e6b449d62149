// LogScanner: one log, fed in blocks of whole lines, becomes a ScannedLog: findings (repeats
// folded), how far the training got, torchelastic's table, the last lines. Detector is what all
// scanners share: the knowledge and its compiled patterns. Memory does not grow with the log.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/result.hpp"
#include "diagnose/input/line_origin.hpp"
#include "diagnose/knowledge.hpp"
#include "diagnose/match/finding.hpp"
#include "diagnose/match/line_sieve.hpp"
#include "diagnose/match/pattern_set.hpp"
#include "diagnose/parse/loss_watch.hpp"

namespace stoker::diagnose {

class Detector {
 public:
  // Errors: a pattern that Vectorscan refuses.
  static Result<Detector> make(std::shared_ptr<const Knowledge> knowledge,
                               const PatternCache* cache = nullptr);
  [[nodiscard]] const Knowledge& knowledge() const { return *knowledge_; }
  [[nodiscard]] const PatternSet& patterns() const { return patterns_; }
  [[nodiscard]] unsigned iteration_pattern() const;  // a line that may tell an iteration
  [[nodiscard]] unsigned gpu_pattern() const;        // a line that may tell which GPU a rank has
  [[nodiscard]] unsigned trace_pattern() const;      // `set -x` of a batch script
  // What a thread scans its logs with. The detector outlives it.
  [[nodiscard]] LineSieve sieve() const { return {patterns_, iteration_pattern()}; }

 private:
  Detector(std::shared_ptr<const Knowledge> knowledge, PatternSet patterns)
      : knowledge_(std::move(knowledge)), patterns_(std::move(patterns)) {}
  std::shared_ptr<const Knowledge> knowledge_;
  PatternSet patterns_;
};

class LogScanner {
 public:
  // `file` is the log's place in the list of inputs. `kernel_log`: every line is the kernel's that
  // does not name another program.
  // `sieve` outlives the scanner; scanners of one thread share it.
  LogScanner(const Detector& detector, LineSieve& sieve, std::string name, std::uint32_t file,
             bool kernel_log);
  void block(std::string_view whole_lines);
  void note(std::string text) { log_.notes.push_back(std::move(text)); }
  // Before the first block: the number of lines in front of it; whose log it is.
  void starts_behind(std::uint64_t lines) { log_.lines = lines; }
  void stands_on(std::string node);
  // What the lines so far say.
  [[nodiscard]] ScannedLog so_far() const;
  ScannedLog finish();
  [[nodiscard]] std::size_t findings() const { return log_.findings.size(); }
  // Changes whenever so_far() may lead to another cause.
  [[nodiscard]] std::uint64_t version() const;

 private:
  struct Candidate {
    const Signature* signature;
    std::vector<PatternSet::Group> groups;
    KernelWords kernel = KernelWords::No;
    bool demoted = false;  // what it needs beside it is not there: a clue
  };
  using Ids = std::span<const unsigned>;
  void look(std::uint64_t before, const LineSieve::Line& line);
  void hit(std::uint64_t line, std::string_view raw, Ids ids);
  void examine(std::uint64_t line, std::string_view text, Ids ids);
  std::optional<Candidate> heaviest(std::uint64_t line, std::string_view text, Ids ids,
                                    const LineOrigin& origin);
  bool in_passing(const Signature& signature, std::string_view text, std::size_t at);
  [[nodiscard]] bool counts_here(const Signature& signature, const LineOrigin& origin) const;
  [[nodiscard]] KernelWords kernel_evidence(const Signature& signature, const LineOrigin& origin,
                                            std::string_view text, std::string_view match) const;
  void progress(std::uint64_t line, std::string_view text, const StepNumbers& numbers);
  void elastic_row(std::uint64_t line, std::string_view text);
  void keep(Finding finding);
  void keep_tail(std::string_view block);
  void tell_end(ScannedLog& log) const;
  void collective(std::string_view text, const LineOrigin& origin);
  [[nodiscard]] bool is_kernel_log(std::string_view block) const;
  static std::optional<std::int64_t> first_time(std::string_view block);

  const Detector& detector_;
  LineSieve& sieve_;
  ScannedLog log_;
  std::uint32_t file_;
  PathOrigin path_;
  LossWatch losses_;
  GpuPlaces gpus_;
  std::string_view block_;  // the present one
  std::string plain_, tail_;
  std::uint64_t last_traceback_ = 0;
  std::uint64_t latest_progress_ = 0;
  std::size_t trace_depth_ = 0;
  RasReader ras_;
  ElasticRow row_;
  bool trace_in_passing_ = false;
  bool row_is_root_ = false;
  bool in_root_section_ = false;
  bool begun_ = false;
  bool named_kernel_log_ = false;    // the caller says so
  bool has_kernel_headers_ = false;  // a line without one goes on with the line before it
  // (signature, its weight here, node, pci, code, first rank) -> place in log_.findings
  using Key = std::tuple<const Signature*, int, std::string, std::string, int, std::int64_t>;
  std::map<Key, std::size_t> folded_;
};

}  // namespace stoker::diagnose
