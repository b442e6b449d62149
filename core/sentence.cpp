// Evidence in words. Signal names as strsignal() gives them for Linux, written out because core
// calls no libc function that depends on a locale.
#include "core/sentence.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>

#include "common/hostlist.hpp"
#include "wire/exit_code.hpp"

namespace stoker::core {
namespace {

std::string_view signal_name(int signal) {
  switch (signal) {
    case 1: return "Hangup";
    case 2: return "Interrupt";
    case 3: return "Quit";
    case 4: return "Illegal instruction";
    case 6: return "Aborted";
    case 7: return "Bus error";
    case 8: return "Floating point exception";
    case 9: return "Killed";
    case 10: return "User defined signal 1";
    case 11: return "Segmentation fault";
    case 13: return "Broken pipe";
    case 15: return "Terminated";
    default: return "";
  }
}

}  // namespace

std::string exit_text(int code, int signal) {
  if (signal == 0) signal = wire::signal_of(code);
  const std::string_view name =
      signal != 0 ? signal_name(signal) : wire::text_of(wire::ExitCode{code});
  const std::string text =
      signal != 0 ? fmt::format("signal {}", signal) : fmt::format("exit code {}", code);
  return name.empty() ? text : fmt::format("{} ({})", text, name);
}

std::string count_text(std::uint64_t n, const char* noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string where_text(const RunState& run) {
  const std::uint64_t at = run.health.progress.iteration.value;
  const std::uint64_t saved = run.health.checkpoint.iteration.value;
  if (at == 0) return "before the first iteration";
  if (saved == 0 && !has_agents(run.policy)) return fmt::format("at iteration {}", at);
  if (saved == 0) return fmt::format("at iteration {}, with no checkpoint yet", at);
  if (at <= saved) return fmt::format("at iteration {}, with the checkpoint of {}", at, saved);
  return fmt::format("at iteration {}, {} after the checkpoint of {}", at,
                     count_text(at - saved, "iteration"), saved);
}

std::string who_text(const OperatorAsked& asked) {
  return fmt::format(
      "{}{}{}", asked.by.empty() ? "somebody" : asked.by,
      asked.via.empty() || asked.via == "socket" ? "" : fmt::format(" (by {})", asked.via),
      asked.reason.empty() ? "" : fmt::format(": \"{}\"", asked.reason));
}

std::string budget_text(const RunState& run) {
  const std::uint32_t total = run.policy.recover.restarts_total;
  const std::uint32_t left = total - std::min(total, run.recovery.budget.spent);
  return fmt::format("{} of {} restarts left", left, total);
}

std::string nodes_text(const std::vector<NodeName>& nodes) {
  return nodes.empty() ? "no node" : compress_hostlist(nodes);
}

std::string job_text(const JobId& job) {
  return fmt::format("job {}", job.text());
}

std::string by_whom(const JobSeen& end) {
  return end.cancelled_by_uid == 0 ? "" : fmt::format(" by uid {}", end.cancelled_by_uid);
}

std::string command_text(const RunName& run, const char* verb, const char* rest) {
  return fmt::format("stoker {} {}{}{}", verb, run.text, *rest == '\0' ? "" : " ", rest);
}

std::string failures_text(const std::string& kind) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"", "other causes"},
      {"hang", "hangs"},
      {"rank_crash", "crashes of ranks"},
      {"numbers_differ", "numbers that must be equal and were not"},
      {"node_fault", "faults of nodes"},
      {"agents_silent", "silent agents"},
      {"job_failed", "failed jobs"},
      {"crash_loop", "crash loops"},
      {"cancelled_by_hand", "jobs cancelled by hand"},
      {"checkpoint_refused", "refused checkpoints"},
      {"loss_spike", "loss spikes"},
  };
  for (const auto& [name, words] : kWords)
    if (name == kind) return std::string(words);
  std::string words = kind;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

}  // namespace stoker::core
