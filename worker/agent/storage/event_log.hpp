// Writes the events of this agent: gen-*/lead.jsonl of the lead, gen-*/agents/<node>.jsonl of an
// agent whose lead is gone. One line one write(2), in a thread of its own, fsync on edges (all but
// Beat and Notice). Edges are never dropped: a full or broken disk is tried again; Beats are.
#pragma once

#include <memory>
#include <string>

#include "wire/agent_event.hpp"

namespace stoker::agent {

class EventLog {
 public:
  explicit EventLog(std::string path);
  ~EventLog();  // waits at most 5 s for what is queued
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  void write(wire::AgentBody body);  // stamps it; never blocks
  bool flush(Duration limit);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace stoker::agent
