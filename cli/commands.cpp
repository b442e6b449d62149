// The table of commands: one line each, in the order of the reference.
#include "cli/commands/all.hpp"

namespace stoker::cli {

const std::vector<Command>& commands() {
  static const std::vector<Command> table = {
      cmd_init(),       cmd_adopt(),     cmd_check(),   cmd_plan(),    cmd_run(),
      cmd_status(),     cmd_top(),       cmd_pulse(),   cmd_why(),     cmd_events(),
      cmd_chronicle(),  cmd_report(),    cmd_logs(),    cmd_tail(),    cmd_save(),
      cmd_stop(),       cmd_pause(),     cmd_resume(),  cmd_restart(), cmd_rollback(),
      cmd_forget(),     cmd_rename(),    cmd_exclude(), cmd_include(), cmd_nodes(),
      cmd_bisect(),     cmd_stacks(),    cmd_alerts(),  cmd_ack(),     cmd_silence(),
      cmd_diagnose(),   cmd_parse(),     cmd_replay(),  cmd_sim(),     cmd_doctor(),
      cmd_bench_node(), cmd_support(),   cmd_metrics(), cmd_web(),     cmd_cron(),
      cmd_completion(), cmd_self_test(), cmd_docs(),
  };
  return table;
}

}  // namespace stoker::cli
