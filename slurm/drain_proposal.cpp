#include "slurm/drain_proposal.hpp"

#include <algorithm>
#include <cctype>

#include "common/shell_word.hpp"
#include "core/action.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kLongestReason = 160;

bool may_name_a_node(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

Result<std::vector<std::string>> update(const NodeName& node, const std::string& state) {
  const std::string& name = node.text;
  if (name.empty() || name.front() == '-' ||
      !std::all_of(name.begin(), name.end(), may_name_a_node))
    return fail("no name of a node", name);
  return std::vector<std::string>{"scontrol", "update", "NodeName=" + name, "State=" + state};
}

}  // namespace

Result<std::vector<std::string>> drain_arguments(const NodeName& node, const std::string& why) {
  STOKER_TRY(arguments, update(node, "DRAIN"));
  std::string reason = core::DrainNode::kNote + why.substr(0, kLongestReason);
  std::replace_if(
      reason.begin(), reason.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  arguments.push_back("Reason=" + reason);
  return arguments;
}

Result<std::vector<std::string>> undrain_arguments(const NodeName& node) {
  return update(node, "UNDRAIN");
}

std::string pasteable(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments)
    line += (line.empty() ? "" : " ") + shell_word(argument);
  return line;
}

bool says_no_right(std::string_view answer) {
  return answer.find("Invalid user id") != std::string_view::npos ||
         answer.find("ccess/permission denied") != std::string_view::npos;
}

}  // namespace stoker::slurm
