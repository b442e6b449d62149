// The agent's threads, all started here (tests/lint): beside a full machine or a low limit of
// processes (ulimit -u, pids.max) none can be made at times, and that must not end a training. It
// is said on standard error once, and tried again.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace stoker::agent {

// Before the first one: so that there is a thread which tries again. False: not even that one.
bool can_run_aside();

// Something waits for a thread.
bool is_short_of_threads();

// Runs it in a thread of its own that is not joined: at once, else as soon as one can be made.
void run_aside_soon(std::function<void()> work);
// `work` may be moved only.
template <class Work>
void run_aside(Work work) {
  run_aside_soon([held = std::make_shared<Work>(std::move(work))] { (*held)(); });
}

// A thread that is joined when it goes; empty: none can be made now, and the caller goes on
// without.
using Thread = std::optional<std::jthread>;
Thread try_thread(const std::function<void()>& work);

}  // namespace stoker::agent
