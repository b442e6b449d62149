// Which rank did not enter which collective? Ranks report how far they are in each process group:
// watchdog lines of PyTorch ("[PG ID 0 … Rank 2] … last enqueued work: 547"), flight-recorder
// dumps, NCCL's RAS. A rank whose newest collective is older than the one that others are stuck in
// never came; of several such ranks those that are stuck themselves in another group are victims.
// Pure; linear in the reports.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::diagnose {

// How far one rank is in one group, as it says itself. Counts from 1; -1 = unknown.
struct CollectiveReport {
  std::string group;  // "0(default_pg)": the same text for all ranks of a group in one log
  std::string node;
  std::uint32_t rank = 0;
  bool global_rank = true;     // else counted inside the group
  std::int64_t stuck_in = -1;  // entered and not finished
  std::int64_t entered = -1;   // newest one that it has entered
  std::string operation;       // of stuck_in: "ALLREDUCE"
};

struct MissingRank {
  std::string group, node;
  std::uint32_t rank = 0;
  std::int64_t collective = 0;  // the first that it did not enter
  std::string operation;        // as the others call it
  std::size_t waiting = 0;      // ranks that are stuck in that one or a later one
};

struct CollectiveView {
  std::vector<MissingRank> missing;  // the guilty ones, by group and rank
  std::size_t stuck = 0;             // reports of ranks that are stuck
  std::string disagreement;  // "" or: ranks call different operations as the same collective
};

CollectiveView find_missing(const std::vector<CollectiveReport>& reports);
// "rank 5 on n03 did not enter collective 8141 (ALLREDUCE) of group 0(default_pg), in which 7 ranks
// wait"; "" without missing ones.
std::string missing_text(const CollectiveView& view);

// A watchdog line of PyTorch's ProcessGroupNCCL.
std::optional<CollectiveReport> parse_watchdog_line(std::string_view line);

// NCCL RAS: "26 ranks have launched up to operation 6650", then the ranks of that count. One a log.
class RasReader {
 public:
  // True when the line said something. Reports are complete at the next group or end.
  bool line(std::string_view text);
  [[nodiscard]] std::vector<CollectiveReport> reports() const;

 private:
  std::string group_;
  std::int64_t count_ = -1;
  std::map<std::string, std::int64_t> furthest_;  // by group
  std::vector<CollectiveReport> reports_;
};

inline constexpr std::size_t kMostReports = 100'000;

}  // namespace stoker::diagnose
