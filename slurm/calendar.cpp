#include "slurm/calendar.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "common/hostlist.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kMost = 256;
constexpr char kSeparator = '\x1f';

// The value of "KEY=value" in a line of fields; a value ends at the next space.
std::optional<std::string_view> field(std::string_view line, std::string_view key) {
  const std::string wanted = std::string(key) + "=";
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    if (word.starts_with(wanted)) return word.substr(wanted.size());
    at = end + 1;
  }
  return std::nullopt;
}

std::optional<WallTime> time_of(std::optional<std::string_view> text) {
  std::int64_t seconds = 0;
  if (!text || text->empty()) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error != std::errc() || end != text->data() + text->size() || seconds < 0 ||
      seconds > 9'000'000'000)
    return std::nullopt;
  return WallTime(std::chrono::seconds(seconds));
}

Result<std::optional<core::Reservation>> reservation_of(std::string_view line) {
  const auto name = field(line, "ReservationName"), nodes = field(line, "Nodes");
  const auto from = time_of(field(line, "StartTime")), until = time_of(field(line, "EndTime"));
  if (!name || !nodes || !from || !until)
    return fail("scontrol: a line that is no reservation", std::string(line.substr(0, 120)));
  core::Reservation out;
  out.name = *name;
  out.from = *from;
  out.until = *until;
  if (nodes->empty() || *nodes == "(null)") return std::optional<core::Reservation>();
  STOKER_TRY(list, expand_hostlist(std::string(*nodes)));
  out.nodes = compress_hostlist(std::move(list));
  return std::optional(std::move(out));
}

}  // namespace

std::vector<std::string> partitions_command() {
  return {"sinfo", "-a", "-N", "-h", "-o", "%N\x1f%P"};
}

std::vector<std::string> reservations_command() {
  return {"scontrol", "show", "reservation", "-o"};
}

Result<std::vector<core::Partition>> parse_partitions(std::string_view text) {
  if (!text.empty() && text.back() != '\n') return fail("sinfo: the answer is cut off", "sinfo");
  std::map<std::string, std::vector<NodeName>> nodes;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    if (line.empty()) continue;
    const auto at = line.find(kSeparator);
    if (at == std::string_view::npos || at == 0 || at + 1 == line.size())
      return fail("sinfo: a line that is no node", std::string(line.substr(0, 120)));
    nodes[std::string(line.substr(at + 1))].emplace_back(std::string(line.substr(0, at)));
  }
  std::vector<core::Partition> out;
  for (auto& [name, list] : nodes) {
    if (out.size() == kMost) break;
    core::Partition partition{name, name.ends_with('*'), compress_hostlist(std::move(list))};
    if (partition.by_default) partition.name.pop_back();
    STOKER_TRY_STATUS(expand_hostlist(partition.nodes));  // names that no node can have
    out.push_back(std::move(partition));
  }
  return out;
}

Result<std::vector<core::Reservation>> parse_reservations(std::string_view text) {
  if (text.empty() || text.back() != '\n')
    return fail("scontrol: the answer is cut off", "scontrol");
  std::vector<core::Reservation> out;
  if (text.starts_with("No reservations in the system")) return out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    if (line.empty()) continue;
    STOKER_TRY(found, reservation_of(line));
    if (found && out.size() < kMost) out.push_back(std::move(*found));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::tie(a.from, a.name) < std::tie(b.from, b.name);
  });
  return out;
}

}  // namespace stoker::slurm
