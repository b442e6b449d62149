#include "slurm/drain_proposal.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

#include "slurm/batch_script.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kLongestReason = 160;

bool may_name_a_node(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

}  // namespace

Result<std::string> drain_command(const NodeName& node, const std::string& why) {
  const std::string& name = node.text;
  if (name.empty() || name.front() == '-' ||
      !std::all_of(name.begin(), name.end(), may_name_a_node))
    return fail("no name of a node", name);
  std::string reason = "stoker: " + why.substr(0, kLongestReason);
  std::replace_if(
      reason.begin(), reason.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return fmt::format("scontrol update NodeName={} State=DRAIN {}", name,
                     shell_word("Reason=" + reason));
}

}  // namespace stoker::slurm
