#include "cli/show/plain_words.hpp"

#include <fmt/format.h>

namespace stoker::cli {
namespace {

struct Word {
  std::string_view name, words;
};

constexpr Word kEvents[] = {
    {"run_added", "run was added"},
    {"policy_changed", "RUN.yaml was read again"},
    {"operator_asked", "request of an operator"},
    {"switch_refused", "switch file that was refused"},
    {"daemon_started", "stokerd started"},
    {"daemon_stopping", "stokerd stopped"},
    {"tick", "time passed"},
    {"weekly_due", "the weekly digest is due"},
    {"quarantined", "an event that stoker could not process"},
    {"job_seen", "answer of the scheduler"},
    {"job_gone", "the scheduler does not know the job"},
    {"rivals_seen", "another job of this run's name"},
    {"job_probed", "look at the job's steps and processes"},
    {"scheduler_blind", "the scheduler does not answer"},
    {"scheduler_sees", "the scheduler answers again"},
    {"node_seen", "state of a node"},
    {"calendar_seen", "partitions and reservations of the cluster"},
    {"agent_said", "report of the agents"},
    {"digest", "heartbeats"},
    {"lead_silent", "silence of the lead agent"},
    {"lead_speaks", "the lead agent reports again"},
    {"diagnosed", "diagnosis of the logs"},
    {"log_followed", "log file was followed"},
    {"effect_done", "an action succeeded"},
    {"effect_failed", "an action failed"},
    {"effect_unknown", "an action without an answer"},
    {"token_looked_up", "search for a submission"},
    {"disk_low", "free space of a disk"},
    {"disk_full", "disk of the run directory"},
    {"folder_silent", "answers of a folder of the run"},
    {"finish_file_seen", "finish file of the training"},
    {"end_seen", "end mark of a generation"},
    {"follower_ended", "end of a follower's command"},
};

constexpr Word kActions[] = {
    {"write_orders", "orders for the next start"},
    {"submit", "submit"},
    {"cancel", "cancel"},
    {"set_exclusions", "exclude nodes from waiting tasks"},
    {"signal_job", "signal to the job"},
    {"set_kill_switch", "kill switch of the training"},
    {"probe_job", "look at the job's steps and processes"},
    {"set_resume_point", "set the checkpoint to resume from"},
    {"look_at_tree", "look at the checkpoint folder"},
    {"drain_node", "drain a node"},
    {"look_up_token", "search the queue for the submission"},
    {"write_control", "order to the agents"},
    {"consume_switch", "take the switch file"},
    {"send_alert", "alert"},
    {"run_follower", "submit a follower's job"},
    {"remove_follow_folder", "delete an old folder of a follower"},
};

template <std::size_t N>
std::string_view find(const Word (&words)[N], std::string_view name) {
  for (const Word& word : words)
    if (word.name == name) return word.words;
  return name;
}

}  // namespace

std::string event_words(std::string_view kind) {
  return std::string(find(kEvents, kind));
}

std::string action_words(std::string_view action) {
  const std::size_t name_end = action.find(' ');
  const std::string_view name = action.substr(0, name_end);
  std::string text(find(kActions, name));
  if (name_end == std::string_view::npos) return text;
  const std::string_view rest = action.substr(name_end + 1);
  const std::size_t key_end = rest.find(' ');
  if (key_end == std::string_view::npos) return text;  // only its key: the event's number has it
  return fmt::format("{}: {}", text, rest.substr(key_end + 1));
}

}  // namespace stoker::cli
