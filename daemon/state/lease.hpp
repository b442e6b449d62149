// Who owns, or owned, a state directory: the text of `stokerd.lock` on a local disk and of
// `lease.<epoch>` on a shared one.
#pragma once

#include <string>

#include "common/json.hpp"
#include "common/time.hpp"

namespace stoker::daemon {

// lease.<epoch>
struct Lease {
  int version = 1;
  Epoch epoch;
  std::string host, boot_id;
  std::uint64_t pid_namespace = 0;  // in which `pid` is meant: its inode; 0: not known
  std::int64_t pid = 0;
  std::uint64_t started = 0;  // os::ProcessIdentity
  std::uint64_t counter = 0;  // renewed by its owner
  bool released = false;      // said goodbye
  STOKER_FIELDS(Lease, version, epoch, host, boot_id, pid_namespace, pid, started, counter,
                released)
};

Lease our_lease(Epoch epoch);  // of this process

// Whether its process is proven to have ended, or to be ending and never to run again: only its
// own host can tell. False where that is unknown.
bool is_owner_gone(const Lease& lease);

std::string owner_text(const Lease& lease);  // "stokerd with pid 12 on login1 works on it"

}  // namespace stoker::daemon
