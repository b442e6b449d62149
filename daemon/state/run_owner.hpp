// Whose run directory is it? Two daemons with different state directories know nothing of each
// other: each would submit jobs and write control.json, and the training would change hands with
// every job. So the first to supervise a run makes <run directory>/owner.json, exactly once, and
// any other state directory is refused. A state directory is known by an identity that is stored
// in it, because its path and host may change.
#pragma once

#include <string>

#include "common/json.hpp"
#include "common/time.hpp"

namespace stoker::daemon {

inline constexpr const char* kOwnerName = "owner.json";

struct RunOwner {
  int version = 1;
  std::string identity;         // of the state directory: 32 hex digits
  std::string state, host, by;  // for people
  WallTime at;
  STOKER_FIELDS(RunOwner, version, identity, state, host, by, at)
};

// Makes the run directory ours, or finds that it is; also when its owner's state directory on this
// host is no more. Error: another state directory's, named, with what to do. Blocks on both file
// systems.
Status own_run_directory(const std::string& run_directory, const std::string& state_directory,
                         const std::string& by);
// Another state directory may own it from now on. What is not ours stays as it is.
Status disown_run_directory(const std::string& run_directory, const std::string& state_directory);

}  // namespace stoker::daemon
