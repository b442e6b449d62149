// No orphans. Three watchmen in one line of descent, each a subreaper and each holding pidfds of
// the others:
//
//   keeper (what SLURM started) ── agent ── guardian (one a rank) ── rank ── its children …
//
// Whichever of them are killed, the survivors kill everything below themselves and what carries the
// agent's mark; the rank itself also dies with its guardian (PDEATHSIG). PDEATHSIG alone would
// reach neither grandchildren nor setsid'ed ones.
//
// Agent and guardian talk over a SOCK_SEQPACKET pair, one GuardianMessage or GuardianOrder a
// packet; when the agent's end closes, the guardian ends its rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "common/os/process.hpp"

namespace stoker::agent {

enum class GuardianWord : std::uint32_t {
  Started = 1,      // value = pid of the rank
  Exited = 2,       // value = raw wait status of the rank
  Clear = 3,        // every process below is proven gone; the guardian exits now
  Stuck = 4,        // value = how many could not be killed; they are in uninterruptible sleep
  CannotStart = 5,  // text says what
  Waits = 6  // the machine has no process to give (text); it is tried again, this is said each time
};
struct GuardianMessage {
  GuardianWord word{};
  std::int32_t value = 0;
  char text[256] = {};
};

enum class GuardianVerb : std::uint32_t {
  Signal = 1,  // to the rank's process group
  Kill = 2     // the whole tree, now
};
struct GuardianOrder {
  GuardianVerb verb{};
  std::int32_t signal = 0;
};

struct GuardianPlan {
  int socket = -1;
  int standby = -1;  // passed on to the command, closed here
  os::ProcessIdentity agent, keeper;
  std::string mark;
  std::vector<std::string> command;
};

// The process mode `stoker-agent guardian`: runs the command with the guardian's own environment
// and streams. Returns the exit code of the guardian (0 = all below is gone).
int run_guardian(const GuardianPlan& plan);

// Forks: the parent becomes the keeper and returns its exit code in `keeper_exit`; the child
// returns false and goes on as the agent. Must be called before any thread exists.
struct KeeperLink {
  os::ProcessIdentity keeper;
  os::Fd keeper_pidfd;
};
bool become_keeper(const std::string& mark, KeeperLink& link, int& keeper_exit);

// Files in /dev/shm of an agent begin with this; the keeper removes them at the end.
std::string shm_prefix(const std::string& mark);

}  // namespace stoker::agent
