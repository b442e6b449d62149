// The groups of a signature know better than the labels of the line.
#include "diagnose/match/line_finding.hpp"

#include <charconv>
#include <fmt/format.h>

#include "common/hostlist.hpp"
#include "diagnose/input/line_scan.hpp"
#include "diagnose/parse/kernel_line.hpp"

namespace stoker::diagnose {

namespace {

constexpr std::size_t kKeptText = 2048;
constexpr std::size_t kBefore = 256;  // kept in front of a match deep inside a long line
constexpr std::size_t kMostRanks = 4096;

// A line that is too long is kept around its match.
std::string kept_text(std::string_view line, std::string_view match) {
  const auto at = static_cast<std::size_t>(match.data() - line.data());
  if (line.size() <= kKeptText || at + match.size() <= kKeptText)
    return std::string(trim(line.substr(0, kKeptText)));
  return std::string(trim(line.substr(at > kBefore ? at - kBefore : 0, kKeptText)));
}

// The first host of "n[001-004,7]"; the word itself when it is no host list.
std::string first_host(std::string_view text) {
  const auto hosts = expand_hostlist(text);
  if (hosts && !hosts->empty()) return hosts->front().text;
  return std::string(text);
}

}  // namespace

std::vector<std::uint32_t> rank_list(std::string_view text) {
  std::vector<std::uint32_t> ranks;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (at < end && ranks.size() < kMostRanks) {
    std::uint32_t first = 0;
    const auto got = std::from_chars(at, end, first);
    if (got.ec != std::errc{}) {
      ++at;
      continue;
    }
    at = got.ptr;
    std::uint32_t last = first;
    if (at < end && *at == '-') {
      const auto range = std::from_chars(at + 1, end, last);
      at = range.ec == std::errc{} ? range.ptr : at + 1;
    }
    for (std::uint64_t rank = first; rank <= last && ranks.size() < kMostRanks; ++rank)
      ranks.push_back(static_cast<std::uint32_t>(rank));
  }
  return ranks;
}

Finding make_finding(const Signature& signature, const std::vector<PatternSet::Group>& groups,
                     const LineOrigin& origin, std::string_view text) {
  Finding f;
  f.signature = &signature;
  f.failure_class = signature.failure_class;
  f.severity = signature.severity;
  f.weight = signature.weight;
  f.confidence = signature.confidence;
  f.node_suspect = signature.node_suspect;
  if (signature.has_advice) f.advice = signature.advice;
  f.text = kept_text(text, groups.front().text);
  f.time_ms = f.last_time_ms = origin.time_ms;
  f.from_kernel = signature.kernel;
  bool own_node = false;
  for (const auto& [name, value] : groups) {
    if (value.empty()) continue;
    if (name.starts_with("node")) {
      f.node = first_host(value);
      own_node = true;
    } else if (name == "rank" || name == "ranks") {
      f.ranks = rank_list(value);
    } else if (name.starts_with("gpu_pci")) {
      f.gpu_pci = normal_pci(value).value_or("");
    }
  }
  if (f.node.empty()) f.node = origin.node;
  // "[nid006549:31808]" of Open MPI is a process, not a rank.
  if (f.ranks.empty() && origin.rank && !own_node) f.ranks.push_back(*origin.rank);
  return f;
}

bool decode_kernel(Finding& finding, std::string_view words, const XidCatalogue& catalogue) {
  const auto event = parse_kernel_message(words);
  if (!event) return words.find("SXid") == std::string_view::npos;
  finding.gpu_pci = event->gpu_pci;
  if (!event->xid) return true;
  finding.xid = *event->xid;
  const bool is_switch = event->event_class == KernelClass::Sxid;
  const XidMeaning m = is_switch ? catalogue.sxid(*event->xid, event->text)
                                 : catalogue.xid(*event->xid, event->text);
  finding.meaning = m.meaning;
  finding.severity = m.fatal ? Severity::Fatal : Severity::Warning;
  finding.node_suspect = m.node_suspect;
  finding.advice = Advice{m.run_action, m.node_action,
                          fmt::format("{} {}: {}.{}{}", is_switch ? "SXid" : "Xid", finding.xid,
                                      m.meaning, m.note.empty() ? "" : " ", m.note)};
  if (!is_switch && finding.xid == 79) finding.failure_class = FailureClass::GpuFallenOffBus;
  return true;
}

}  // namespace stoker::diagnose
