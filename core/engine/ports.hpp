// Ports: all that the engine needs of the world, as small abstract classes. The real ones are in
// daemon/, slurm/, embedded/ and alerts/; the in-memory ones in sim/. Ports block: the daemon calls
// them from its own threads, the simulator inline. To add a scheduler: implement Scheduler in a
// folder of its own, name it in SchedulerKind (policy.hpp), make it in daemon/ports/os_ports.cpp.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/process.hpp"
#include "common/result.hpp"
#include "core/action.hpp"
#include "core/event.hpp"

namespace stoker::core {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() = 0;  // engine time
  virtual WallTime wall() = 0;
};

// What a submission is made of, beyond the action: where things are.
struct SubmitRequest {
  Submit submit;
  RunPolicy policy;
  std::vector<std::string> agent_command;          // argv of the agent, run once on every node
  std::map<std::string, std::string> environment;  // STOKER_* for the agent
  // A follower's: behind the training's own jobs, no step: the command runs once, on the first
  // node, and may start steps itself. What it prints goes to <output>-<job>.out.
  bool follower = false;
  std::string output = {};
};

// How an effect that failed is to be taken: Definite = it did not happen; Unknown = it may have.
enum class Certainty { Definite, Unknown };
struct PortError {
  Error error;
  Certainty certainty = Certainty::Definite;
  bool starved = false;      // of a submission: without its exclusions it would have been taken
  std::string by_hand = {};  // refused for lack of rights: what somebody who has them runs
};
template <class T>
using PortResult = std::variant<T, PortError>;

struct ProbeRequest {
  ProbeJob probe;
  std::vector<std::string> agent_command;  // argv of the agent, up to its verb
  std::string folder;                      // where stacks and answers of the nodes go
};

// A submission that should be in the queue: what the decider believes.
struct JobExpected {
  Token token;
  JobId job;         // of the array
  WallTime since{};  // it was not submitted before
  auto operator<=>(const JobExpected&) const = default;
};

// Where no one but the run itself may have a live job: its name, and scripts in these folders.
struct RunGrounds {
  RunName run;
  std::vector<std::string> folders;  // each with its last '/'
  std::string group;                 // its members' jobs are checked too; "" = only our own
  auto operator<=>(const RunGrounds&) const = default;
};
RunGrounds grounds_of(const RunPolicy& policy);

struct SchedulerView {  // one good answer: all our jobs that the scheduler knows, finished ones as
                        // long as it remembers
  std::vector<JobSeen> jobs;
  std::vector<NodeSeen> nodes;
  std::vector<JobGone> gone{};             // expected ones that the scheduler has denied twice
  std::optional<CalendarSeen> calendar{};  // empty: it was not asked for, or not answered
  std::map<RunName, std::vector<std::string>> rivals{};  // of every guarded run; empty: it has none
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual PortResult<JobId> submit(const SubmitRequest& request) = 0;
  virtual PortResult<std::monostate> cancel(const Cancel& cancel) = 0;
  virtual PortResult<std::monostate> set_exclusions(const SetExclusions& change) = 0;
  // What was done, or why the node was left as it is, in words.
  virtual PortResult<std::string> drain(const DrainNode& drain) {
    return PortError{{"this scheduler drains no nodes", drain.node.text, ""}, Certainty::Definite};
  }
  // Only for runs without agents.
  virtual PortResult<std::monostate> signal(const SignalJob& signal) {
    return PortError{{"this scheduler sends no signals", signal.job.text(), ""},
                     Certainty::Definite};
  }
  // Bounded in time; what was not answered is left out of the answer.
  virtual JobProbed probe(const ProbeRequest& request) {
    JobProbed none;
    none.token = request.probe.token;
    none.job = request.probe.job;
    none.why = "this scheduler cannot be asked for a job's steps";
    return none;
  }
  // Searches the queue, and accounting where there is one. Empty: a good answer without it.
  virtual PortResult<std::optional<JobId>> look_up(const Token& token) = 0;
  // One question for all runs. A failure proves nothing about any job.
  virtual Result<SchedulerView> observe(const std::vector<RunName>& runs) = 0;
  // What the next observe() looks for besides: jobs that a scheduler may have forgotten.
  virtual void expect(std::vector<JobExpected> /*jobs*/) {}
  // The runs whose rivals it looks for.
  virtual void guard(std::vector<RunGrounds> /*runs*/) {}
  // How long the next observe() must wait, so that this host does not ask too often.
  virtual Duration rest() { return {}; }
};

class Files {
 public:
  virtual ~Files() = default;
  virtual Result<std::string> read(const std::string& path, std::size_t limit) = 0;
  virtual Status replace(const std::string& path,
                         std::string_view content) = 0;  // aside, synced, renamed
  virtual Status append(const std::string& path,
                        std::string_view content) = 0;  // one write, synced
  virtual Result<bool> create_once(const std::string& path, std::string_view content) = 0;
  virtual Result<bool> exists(const std::string& path) = 0;
  // Refused: another user put it there, who is neither root nor the owner of its folder.
  virtual Status check_put_here(const std::string& /*path*/) { return ok(); }
  // Who has written a file last, and when, in words; "" = not known.
  virtual std::string author(const std::string& /*path*/) { return ""; }
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // Removes these files of <base>/<folder> in this order, then the folder; what is gone already:
  // success. Refused: a link, a folder or another user's among them, or what else is in it.
  virtual Status remove_folder(const std::string& base, const std::string& folder,
                               const std::vector<std::string>& files) = 0;
  virtual Status make_directories(const std::string& path, unsigned mode) = 0;
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  // Changes whenever a file below is made, written or removed; the same for a folder that is not
  // there. Errors: it cannot be read, or is too large to look through.
  virtual Result<std::string> tree(const std::string& path) = 0;
};

class Processes {
 public:
  virtual ~Processes() = default;
  virtual Result<os::CommandOutput> run(const os::SpawnOptions& options, Duration deadline) = 0;
};

class Alerts {
 public:
  virtual ~Alerts() = default;
  // Takes the alert into the outbox (durable); delivery goes on by itself. Repeated by key:
  // success.
  virtual Status accept(const EffectKey& key, const SendAlert& alert,
                        const AlertPolicy& policy) = 0;
};

struct Ports {
  Clock& clock;
  Scheduler& scheduler;
  Files& files;
  Alerts& alerts;
};

}  // namespace stoker::core
