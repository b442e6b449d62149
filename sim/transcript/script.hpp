// Script: what the words of a transcript do to a World. One run, named "demo".
#pragma once

#include <functional>
#include <map>
#include <string>

#include "sim/transcript/words.hpp"
#include "sim/world.hpp"

namespace stoker::sim {

class Script {
 public:
  explicit Script(World::Observer observer);

  // Of a line "at T …": lets the time up to T pass and takes these two words. A question has none.
  Status advance(Words& words);
  // Carries out the rest; returns what a question ("status", "nodes?") answers.
  Result<std::string> run(Words& words);
  Status audit();
  [[nodiscard]] const World& world() const { return world_; }

 private:
  using Verb = Status (Script::*)(Words&);

  Status step(Words& words, const std::string& verb);
  Status feed(core::EventBody body, bool site = false);
  Status say(wire::AgentBody body, bool overtaken = false);
  std::vector<core::Input> digests();

  // script_world.cpp: policy, daemon, scheduler, files
  Status do_policy(Words& words);
  Status do_add(Words& words);
  Status do_daemon(Words& words);
  Status do_nodes(Words& words);
  Status do_calendar(Words& words);
  Status do_job(Words& words);
  Status do_gone(Words& words);
  Status do_rival(Words& words);
  Status do_clock(Words& words);
  Status do_scheduler(Words& words);
  Status do_operator(Words& words);
  Status do_switch(Words& words);
  Status do_disk(Words& words);
  Status do_folder(Words& words);
  Status do_journal(Words& words);
  Status do_files(Words& words);
  Status do_finish_file(Words& words);
  Status do_quarantine(Words& words);
  Status do_effects(Words& words);
  Status do_quiet(Words& words);
  // script_agents.cpp: what agents say
  Status do_generation(Words& words);
  Status do_attempt(Words& words);
  Status do_agent(Words& words);
  Status do_phase(Words& words);
  Status do_beat(Words& words);
  Status do_script(Words& words);
  Status do_iterate(Words& words);
  Status do_freeze(Words& words);
  Status do_saved(Words& words);
  Status do_save_failed(Words& words);
  Status do_differ(Words& words);
  Status do_damaged(Words& words);
  Status do_deleted(Words& words);
  Status do_archived(Words& words);
  Status do_bench(Words& words);
  Status do_benched(Words& words);
  Status do_archive_failed(Words& words);
  Status do_audit(Words& words);
  Status do_ack(Words& words);
  Status do_stacks(Words& words);
  Status do_goodbye(Words& words);
  Status do_end_mark(Words& words);
  [[nodiscard]] std::optional<wire::EndMark> parse_end(Words& words) const;
  Status do_kernel(Words& words);
  Status do_gpus(Words& words);
  Status do_week(Words& words);
  Status do_follower(Words& words);
  Status do_reload(Words& words);
  Status do_logs(Words& words);
  Status do_notice(Words& words);
  Status do_machine_short(Words& words);
  Status do_control_refused(Words& words);
  Status do_lead(Words& words);
  Status do_until(Words& words);
  std::string answer(const std::string& question);
  std::string answer_costs(const std::string& question, const core::RunState& run);

  World world_;
  bool started_ = false;
  std::string said_;  // by the daemon, outside the journal
  core::RunPolicy policy_;
  std::map<std::string, Verb> verbs_;
  // What the world looks like to the agents.
  Generation generation_;
  Attempt attempt_;
  std::vector<NodeName> attempt_nodes_;
  std::uint32_t ranks_ = 0;
  wire::Beat beat_;
  bool beating_ = false;
  std::optional<Instant> frozen_since_;
  std::optional<Rank> frozen_rank_;  // the others stall a second later
  Duration frozen_lag_{};
  bool others_move_ = false;
};

}  // namespace stoker::sim
