#include "slurm/node_states.hpp"

#include <algorithm>
#include <cctype>
#include <set>

namespace stoker::slurm {
namespace {

constexpr char kSeparator = '\x1f';
constexpr std::string_view kSuffixes = "*~#%!$@^-+";
// Base words, also as sinfo shortens them. Anything else (down, drain, fail, maint, reboot, …) is
// no place for a new job.
constexpr std::string_view kUsable[] = {"idle",      "mix",  "mixed",      "alloc",
                                        "allocated", "comp", "completing", "resv",
                                        "reserved",  "plnd", "planned",    "powering_up"};

std::string lower(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return word;
}

}  // namespace

std::vector<std::string> nodes_command(const std::string& node) {
  std::vector<std::string> argv{"sinfo", "-a", "-N", "-h", "-o", "%N\x1f%T\x1f%E"};
  if (!node.empty()) argv.insert(argv.end(), {"-n", node});
  return argv;
}

bool is_drained(std::string_view state) {
  const std::string word = lower(state);
  return word.starts_with("drain") || word.starts_with("drng");
}

bool node_usable(std::string_view state) {
  std::string word = lower(state);
  while (!word.empty() && kSuffixes.find(word.back()) != std::string_view::npos) {
    if (std::string_view("*%!$@^").find(word.back()) != std::string_view::npos) return false;
    word.pop_back();
  }
  return std::find(std::begin(kUsable), std::end(kUsable), word) != std::end(kUsable);
}

Result<std::vector<core::NodeSeen>> parse_nodes(std::string_view text) {
  std::vector<core::NodeSeen> nodes;
  std::set<NodeName> seen;
  if (!text.empty() && text.back() != '\n') return fail("sinfo: the answer is cut off", "sinfo");
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(line.size() + 1);
    if (line.empty()) continue;
    const auto first = line.find(kSeparator);
    const auto second = first == std::string_view::npos ? first : line.find(kSeparator, first + 1);
    if (second == std::string_view::npos || first == 0)
      return fail("sinfo: a line that is no node", std::string(line.substr(0, 120)));
    core::NodeSeen node;
    node.node = NodeName(std::string(line.substr(0, first)));
    node.state = line.substr(first + 1, second - first - 1);
    node.usable = node_usable(node.state);
    if (const auto reason = line.substr(second + 1); reason != "none") node.reason = reason;
    if (seen.insert(node.node).second) nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace stoker::slurm
