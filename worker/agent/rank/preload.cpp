// The interpreter's own options stay in front; what follows the script is the script's.
#include "worker/agent/rank/preload.hpp"

#include "worker/agent/embedded_data.hpp"

namespace stoker::agent {
namespace {

bool is_python(std::string_view program) {
  program.remove_prefix(program.rfind('/') + 1);
  if (!program.starts_with("python")) return false;
  return program.find_first_not_of("0123456789.", 6) == std::string_view::npos;
}

// Index of the script or of -m; 0: neither.
std::size_t script_at(const std::vector<std::string>& command) {
  for (std::size_t at = 1; at < command.size(); ++at) {
    const std::string& word = command[at];
    if (word == "-m") return at + 1 < command.size() ? at : 0;
    if (word.empty() || word == "-" || word.starts_with("-c")) return 0;
    if (word[0] != '-') return at;
    if (word == "-X" || word == "-W" || word == "--check-hash-based-pycs") ++at;
  }
  return 0;
}

}  // namespace

std::optional<std::vector<std::string>> preload_command(const std::vector<std::string>& command,
                                                        const std::string& preload,
                                                        const std::string& helper) {
  if (command.empty() || preload.empty() || !is_python(command.front())) return std::nullopt;
  const std::size_t at = script_at(command);
  if (at == 0) return std::nullopt;
  std::vector<std::string> standby(command.begin(),
                                   command.begin() + static_cast<std::ptrdiff_t>(at));
  standby.insert(standby.end(), {helper, preload, std::to_string(at)});
  standby.insert(standby.end(), command.begin(), command.end());
  return standby;
}

std::string_view python_standby() {
  for (const EmbeddedFile& file : embedded_files())
    if (file.name == "worker/agent/rank/python_standby.py") return file.text;
  return {};
}

}  // namespace stoker::agent
