// AlertKind: what an alert can be about. To add one: its row here, raise() it and resolve() it, and
// a story in tests/golden in which both happen; STOKER_REWRITE=1 test_alerts takes its messages
// from there into tests/alerts/rendered/kinds.txt; then ./dev docs. RUN.yaml's routes, silences and
// docs/alert-kinds.md read the same table. A kind that is written as a literal and is not in it
// does not compile.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace stoker::core {

struct AlertKindRow {
  const char* name;
  bool failure;         // a training that works again disproves it
  const char* meaning;  // as docs/alert-kinds.md shows it
};

inline constexpr std::array kAlertKinds{
    AlertKindRow{"rank_crash", true, "a rank ended with an error; stoker restarted, or tries to"},
    AlertKindRow{"numbers_differ", true, "copies or repeated computations are not the same bits"},
    AlertKindRow{"hang", true, "no rank made progress within the limit of its phase"},
    AlertKindRow{"node_fault", true, "a node is lost, faulty or slow; it is left out where it can"},
    AlertKindRow{"node_convicted", true, "evidence against a node sufficed: it is excluded"},
    AlertKindRow{"job_failed", true, "the job ended with an error and no agent could say why"},
    AlertKindRow{"agents_silent", true, "the agents of a running job have not reported for long"},
    AlertKindRow{"machine_short", true, "a node has no port or process left; its agent waits"},
    AlertKindRow{"limbo", true, "the job runs and its processes are gone"},
    AlertKindRow{"crash_loop", true, "restarts did not lead past the same place; the run is held"},
    AlertKindRow{"disk_full", true, "no room in the run directory or where checkpoints are"},
    AlertKindRow{"checkpoint_refused", true, "no checkpoint could be resumed from"},
    AlertKindRow{"configuration", true, "the training refused its configuration; the run is held"},
    AlertKindRow{"no_restart_helps", true, "the logs name a cause that a restart meets again"},
    AlertKindRow{"cancelled_by_hand", true, "somebody cancelled a job of the run"},
    AlertKindRow{"submit_failed", true, "the scheduler refuses to take the run's jobs"},
    AlertKindRow{"kill_switch", true, "a kill-switch file of the training itself exists"},
    AlertKindRow{"rollback_failed", true, "a rollback could not be carried out"},
    AlertKindRow{"stopped_by_agents", true, "the run was stopped while the daemon was away"},
    AlertKindRow{"end_refused", true, "an end mark of another owner was not believed"},
    AlertKindRow{"preempted", true, "the scheduler took the nodes for another job"},
    AlertKindRow{"hang_limit", false, "a hang limit is shorter than what this training needs"},
    AlertKindRow{"slow", false, "iterations take longer than usual, and it lasts"},
    AlertKindRow{"loss_spike", false, "the loss rose suddenly"},
    AlertKindRow{"loss_diverged", false, "the loss rose and does not come back"},
    AlertKindRow{"loss_not_finite", false, "the loss is not a number"},
    AlertKindRow{"loss_scale", false, "the loss scale collapsed"},
    AlertKindRow{"loss_nan_inf", true, "the logs say that a loss is not a number"},
    AlertKindRow{"loss_scale_collapse", true, "the logs say that the loss scale collapsed"},
    AlertKindRow{"checkpoint_corrupt", true, "the logs say that a checkpoint cannot be read"},
    AlertKindRow{"data_order", false, "samples are repeated or left out"},
    AlertKindRow{"resume_audit", false, "a resumed training differs from the one that saved"},
    AlertKindRow{"checkpoint_damaged", false, "a checkpoint is not what its manifest says"},
    AlertKindRow{"save_failed", false, "a checkpoint could not be written"},
    AlertKindRow{"save_overdue", false, "the next checkpoint is late"},
    AlertKindRow{"save_unanswered", false, "the training does not save when it is asked to"},
    AlertKindRow{"stop_waits", true, "a stop that saves cannot be written into the run directory"},
    AlertKindRow{"archive_failed", false, "a checkpoint could not be copied away"},
    AlertKindRow{"follower_failed", false, "a command of `after:` failed on a checkpoint for good"},
    AlertKindRow{"follower_behind", false, "a command of `after:` is too slow: one is left out"},
    AlertKindRow{"disk_low", false, "a disk is nearly full"},
    AlertKindRow{"node_down", false, "the scheduler has taken a node of the run out"},
    AlertKindRow{"drain_refused", false, "the scheduler refuses to drain a node"},
    AlertKindRow{"exclusions_starve", false, "excluded nodes keep the job in the queue"},
    AlertKindRow{"queue_stuck", false, "the job waits for something that does not come by itself"},
    AlertKindRow{"suspended", false, "the scheduler has suspended the run's job"},
    AlertKindRow{"reservation_ends", false, "the run's reservation ends within a day"},
    AlertKindRow{"late_job", false, "a job of the run that was given up has appeared"},
    AlertKindRow{"job_unknown", true, "the scheduler does not know a job of the run any more"},
    AlertKindRow{"submissions", true, "too many submissions without an iteration in between"},
    AlertKindRow{"rival", false, "another job trains in the same run directory"},
    AlertKindRow{"scheduler_blind", false, "the scheduler gives no usable answers"},
    AlertKindRow{"folder_silent", false, "a folder of the run does not answer, and is passed over"},
    AlertKindRow{"switch_refused", false, "a switch file was not obeyed"},
    AlertKindRow{"policy_refused", false, "RUN.yaml was not read again: another user can write it"},
    AlertKindRow{"effect_failed", false, "something that was decided could not be done"},
    AlertKindRow{"quarantined", false, "an input made the daemon crash and was set aside"},
    AlertKindRow{"stale_daemon", false, "the agents follow a newer daemon than this one"},
    AlertKindRow{"gpu_budget", false, "80 % or all of budget.gpu_hours is spent"},
    AlertKindRow{"weekly_digest", false, "what the week was like (information; alerts.digest)"},
    AlertKindRow{"finished", false, "the run is finished (information)"},
    AlertKindRow{"test", false, "`stoker alerts test`"},
};

constexpr const AlertKindRow* find_alert_kind(std::string_view name) {
  for (const AlertKindRow& row : kAlertKinds)
    if (name == row.name) return &row;
  return nullptr;
}

// A name of the table, to be given on at once: one of `named` lives as long as its text.
class AlertKind {
 public:
  consteval AlertKind(const char* literal) : name_(find_alert_kind(literal)->name) {}  // NOLINT
  // Of a failure, whose kind may also come from the logs' diagnosis.
  static AlertKind named(std::string_view text) { return AlertKind(text, 0); }
  [[nodiscard]] std::string text() const { return std::string(name_); }

 private:
  AlertKind(std::string_view text, int) : name_(text) {}
  std::string_view name_;
};

// docs/alert-kinds.md.
std::string render_alert_kinds();

}  // namespace stoker::core
