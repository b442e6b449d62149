// Every command's maker. Adding a command: its file, a line here, a line in commands.cpp.
#pragma once

#include "cli/command.hpp"

namespace stoker::cli {

Command cmd_ack();
Command cmd_adopt();
Command cmd_alerts();
Command cmd_bench_node();
Command cmd_bisect();
Command cmd_check();
Command cmd_chronicle();
Command cmd_completion();
Command cmd_diagnose();
Command cmd_docs();
Command cmd_doctor();
Command cmd_cron();
Command cmd_events();
Command cmd_exclude();
Command cmd_forget();
Command cmd_include();
Command cmd_init();
Command cmd_logs();
Command cmd_metrics();
Command cmd_nodes();
Command cmd_parse();
Command cmd_pause();
Command cmd_plan();
Command cmd_pulse();
Command cmd_restart();
Command cmd_rename();
Command cmd_replay();
Command cmd_report();
Command cmd_resume();
Command cmd_rollback();
Command cmd_run();
Command cmd_save();
Command cmd_self_test();
Command cmd_silence();
Command cmd_sim();
Command cmd_stacks();
Command cmd_status();
Command cmd_stop();
Command cmd_support();
Command cmd_tail();
Command cmd_top();
Command cmd_web();
Command cmd_why();

}  // namespace stoker::cli
