// The lead agent of a generation: the shell around the pure machine of lead/. It keeps sockets,
// timers, threads, processes and files, turns what it sees into events of the machine, and performs
// the machine's actions. What is to be done is decided in lead/, never here. All state is the loop
// thread's; what may block has a thread that posts its answer.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lead/step.hpp"
#include "wire/control.hpp"
#include "worker/agent/control_watch.hpp"
#include "worker/agent/link/door.hpp"
#include "worker/agent/link/star.hpp"
#include "worker/agent/node/node.hpp"
#include "worker/agent/storage/archiver.hpp"
#include "worker/agent/storage/claim.hpp"
#include "worker/agent/storage/event_log.hpp"
#include "worker/agent/storage/pruner.hpp"

namespace stoker::agent {

struct LeadWiring {
  Loop& loop;
  const RunContext& context;
  Watchmen watchmen;
};

class Lead {
 public:
  // `before`: control.json as it was before the generation was minted; its counters are done.
  Lead(LeadWiring wiring, Minted minted, const std::optional<wire::Control>& before);
  ~Lead();

  Status begin();                 // listens, publishes the address, watches control
  void on_signal(int signal);     // of the scheduler or a person
  void keeper_gone();             // everything must end now
  void notice(std::string text);  // one line for the daemon and the log
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  // lead.cpp: what is seen
  Status open_door();
  void make_node();
  void make_control_watch();
  void make_pruner();
  void on_known(const Hello& hello, std::unique_ptr<Link> link);
  void on_frame(const NodeName& node, const Frame& frame);
  [[nodiscard]] lead::Tick look() const;
  void feed(lead::EventBody body);  // also inside an action: it is the next event then
  void arm();

  // lead_actions.cpp: what is done
  void perform(lead::Report& action);
  void perform(lead::Send& action);
  void perform(lead::StartAttempt& action);
  void perform(const lead::ChooseCheckpoint& action);
  void perform(const lead::LookForEnd& action);
  void perform(const lead::WriteEndMark& action);
  void perform(const lead::SetKillSwitch& action);
  void perform(const lead::GroupStacks& action);
  void perform(const lead::TendCheckpoints& action);
  void perform(const lead::KillAll& action);
  void perform(lead::Quit& action);
  // In a thread: the file system may hang. The answer is an event.
  void ask(std::function<lead::EventBody()> work);
  [[nodiscard]] const wire::Start& start() const { return state_.setup.start; }
  [[nodiscard]] const wire::Orders& orders() const { return start().orders; }

  LeadWiring wiring_;
  Loop& loop_;
  const RunContext& context_;
  std::string directory_;  // of the generation
  lead::State state_;
  std::deque<lead::EventBody> waiting_;
  bool stepping_ = false;
  Loop::Timer wake_timer_ = 0;
  Instant wake_at_{};  // of the timer
  EventLog events_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  LogWriter logs_;
  std::string finish_refused_;  // what was reported of a file that does not end the training
  std::unique_ptr<Node> node_;
  std::unique_ptr<ControlWatch> control_watch_;
  std::unique_ptr<Archiver> archiver_;
  std::unique_ptr<Pruner> pruner_;
  std::unique_ptr<Door> door_;                       // null: no other node
  std::map<NodeName, std::unique_ptr<Link>> links_;  // the newest of each agent, also when broken
  int exit_code_ = 1;
};

}  // namespace stoker::agent
