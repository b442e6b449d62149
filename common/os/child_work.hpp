// Work that may sleep in the kernel where not even SIGKILL ends it: a folder whose lock another
// user keeps, a mount whose server is gone. A child process does it; the caller goes on without it.
#pragma once

#include <functional>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::os {

// What `work` returned, at most 64 KiB, by a copy of this process; which has one thread when this
// is called. Its standard streams are /dev/null there. Errors: the child could not be started, or
// ended without an answer; or it did not answer in time: then it is killed, and left to init where
// it cannot be killed yet.
Result<std::string> work_in_child(Duration patience, const std::function<std::string()>& work);

}  // namespace stoker::os
