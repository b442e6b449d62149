// Sources of the texts: pytorch ProcessGroupNCCL.cpp (2.1 to 2.7), NCCL 2.24+ user guide, RAS.
#include "diagnose/cause/collectives.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <re2/re2.h>
#include <set>

namespace stoker::diagnose {

namespace {

using Who = std::pair<bool, std::uint32_t>;
Who who(const CollectiveReport& r) {
  return {r.global_rank, r.rank};
}

// Several reports of one rank and group are one.
std::vector<CollectiveReport> merged(const std::vector<CollectiveReport>& reports) {
  std::map<std::pair<std::string, Who>, CollectiveReport> all;
  for (const CollectiveReport& r : reports) {
    auto [found, fresh] = all.try_emplace({r.group, who(r)}, r);
    if (fresh) continue;
    CollectiveReport& known = found->second;
    known.entered = std::max(known.entered, r.entered);
    if (known.stuck_in < 0 || (r.stuck_in >= 0 && r.stuck_in < known.stuck_in)) {
      known.stuck_in = r.stuck_in;
      if (!r.operation.empty()) known.operation = r.operation;
    }
    if (known.node.empty()) known.node = r.node;
  }
  std::vector<CollectiveReport> one_each;
  for (auto& [key, r] : all) one_each.push_back(std::move(r));
  return one_each;
}

struct Group {
  std::int64_t stuck_in = -1;  // the latest that somebody is stuck in
  std::string operation;
  std::size_t waiting = 0;
};

std::string disagreement_of(const std::vector<CollectiveReport>& reports) {
  std::map<std::pair<std::string, std::int64_t>, const CollectiveReport*> first;
  for (const CollectiveReport& r : reports) {
    if (r.stuck_in < 0 || r.operation.empty()) continue;
    const auto [found, fresh] = first.try_emplace({r.group, r.stuck_in}, &r);
    const CollectiveReport& other = *found->second;
    if (!fresh && other.operation != r.operation)
      return fmt::format("as collective {} of group {} rank {} calls {} and rank {} calls {}",
                         r.stuck_in, r.group, other.rank, other.operation, r.rank, r.operation);
  }
  return "";
}

}  // namespace

CollectiveView find_missing(const std::vector<CollectiveReport>& reports) {
  const auto all = merged(reports);
  CollectiveView view;
  view.disagreement = disagreement_of(all);
  std::map<std::string, Group> groups;
  for (const CollectiveReport& r : all) {
    if (r.stuck_in < 0) continue;
    ++view.stuck;
    Group& group = groups[r.group];
    if (r.stuck_in > group.stuck_in) {
      group.stuck_in = r.stuck_in;
      group.operation = r.operation;
    }
  }
  std::set<Who> stuck_somewhere;
  for (const CollectiveReport& r : all) {
    const auto group = groups.find(r.group);
    if (r.stuck_in < 0 || group == groups.end()) continue;
    if (r.stuck_in == group->second.stuck_in) {
      ++group->second.waiting;
      stuck_somewhere.insert(who(r));
    }
  }
  std::vector<MissingRank> victims;
  for (const CollectiveReport& r : all) {
    const auto found = groups.find(r.group);
    if (found == groups.end() || r.entered < 0 || r.entered >= found->second.stuck_in) continue;
    const Group& group = found->second;
    MissingRank missing{r.group, r.node, r.rank, r.entered + 1, group.operation, group.waiting};
    (stuck_somewhere.contains(who(r)) ? victims : view.missing).push_back(std::move(missing));
  }
  if (view.missing.empty()) view.missing = std::move(victims);
  return view;
}

std::string missing_text(const CollectiveView& view) {
  constexpr std::size_t kNamed = 8;
  if (view.missing.empty()) return "";
  const MissingRank& first = view.missing.front();
  std::string ranks;
  std::size_t same = 0;
  for (const MissingRank& m : view.missing) {
    if (m.group != first.group) continue;
    if (++same > kNamed) continue;
    ranks +=
        fmt::format("{}{}{}", same > 1 ? ", " : "", m.rank, m.node.empty() ? "" : " on " + m.node);
  }
  if (same > kNamed) ranks += fmt::format(" and {} more", same - kNamed);
  return fmt::format("rank{} {} did not enter collective {}{} of group {}, in which {} wait{}",
                     same > 1 ? "s" : "", ranks, first.collective,
                     first.operation.empty() ? "" : " (" + first.operation + ")", first.group,
                     first.waiting == 1 ? "1 rank" : fmt::format("{} ranks", first.waiting),
                     first.waiting == 1 ? "s" : "");
}

std::optional<CollectiveReport> parse_watchdog_line(std::string_view line) {
  static const RE2 kPlace(R"(\[(?:PG (?:ID )?(\d+)[^\]]{0,200}?)?Rank (\d+)\])");
  static const RE2 kUnique(R"(PG GUID (\d+))");  // the same on all ranks; "PG ID" is not
  static const RE2 kName(R"(PG GUID \d+\(([^)\]]{1,100})\)|PG \d+ \(([^)\]]{1,100})\))");
  static const RE2 kWork(R"(WorkNCCL\(SeqNum=(\d+), OpType=(\w+))");
  static const RE2 kStuck(R"((?:Timeout at NCCL work: |work sequence id: )(\d+))");
  static const RE2 kEntered(R"(last enqueued (?:NCCL )?work: (-?\d+))");
  const re2::StringPiece text(line.data(), std::min<std::size_t>(line.size(), 4096));
  CollectiveReport r;
  std::string group, name, other;
  if (!RE2::PartialMatch(text, kPlace, &group, &r.rank)) return std::nullopt;
  RE2::PartialMatch(text, kWork, &r.stuck_in, &r.operation);
  if (r.stuck_in < 0) RE2::PartialMatch(text, kStuck, &r.stuck_in);
  RE2::PartialMatch(text, kEntered, &r.entered);
  if (r.stuck_in < 0 && r.entered < 0) return std::nullopt;
  // Lines of PyTorch before 2.2 name no group; some later ones only its number.
  RE2::PartialMatch(text, kName, &name, &other);
  RE2::PartialMatch(text, kUnique, &group);
  r.group = group.empty() ? "0" : group;
  r.global_rank = r.group == "0";
  if (!(name + other).empty()) r.group += "(" + name + other + ")";
  r.entered = std::max(r.entered, r.stuck_in);
  return r;
}

bool RasReader::line(std::string_view text) {
  static const RE2 kGroup(R"(^#(\d+-\d+ \([0-9a-f]+\)) (\w+))");
  static const RE2 kCount(R"((\d+) ranks? ha(?:ve|s) launched up to operation (\d+))");
  static const RE2 kNone(R"(ranks? ha(?:ve|s) not launched any operation)");
  static const RE2 kRank(
      R"(^Rank (\d+) (?:has launched up to operation (\d+) )?-- GPU \S+ managed by process \d+ on node (?:node )?(\S+))");
  const re2::StringPiece piece(text.data(), std::min<std::size_t>(text.size(), 1024));
  std::string kind, many, node;
  if (RE2::PartialMatch(piece, kGroup, &group_, &kind)) {
    count_ = -1;
    return true;
  }
  if (RE2::PartialMatch(piece, kCount, &many, &count_)) {
    auto& furthest = furthest_[group_];
    furthest = std::max(furthest, count_);
    return true;
  }
  if (RE2::PartialMatch(piece, kNone)) {
    count_ = 0;
    return true;
  }
  CollectiveReport r;
  std::string own;
  if (!RE2::PartialMatch(piece, kRank, &r.rank, &own, &node)) return false;
  r.entered = count_;
  if (!own.empty()) {
    RE2::FullMatch(own, R"((\d+))", &r.entered);
    auto& furthest = furthest_[group_];
    furthest = std::max(furthest, r.entered);
  }
  r.group = group_;
  r.node = node;
  r.global_rank = false;
  if (r.entered >= 0 && reports_.size() < kMostReports) reports_.push_back(std::move(r));
  return true;
}

// The many that are not named stand for one that is stuck in the newest operation.
std::vector<CollectiveReport> RasReader::reports() const {
  std::vector<CollectiveReport> all;
  std::set<std::string> behind;
  for (const CollectiveReport& r : reports_) {
    const auto furthest = furthest_.find(r.group);
    if (furthest == furthest_.end() || r.entered >= furthest->second) continue;
    all.push_back(r);
    behind.insert(r.group);
  }
  for (const std::string& group : behind) {
    CollectiveReport rest;
    rest.group = group;
    rest.rank = ~0U;
    rest.global_rank = false;
    rest.stuck_in = rest.entered = furthest_.at(group);
    all.push_back(std::move(rest));
  }
  return all;
}

}  // namespace stoker::diagnose
