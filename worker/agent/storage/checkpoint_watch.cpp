// One look after another, each posted back to the loop.
#include "worker/agent/storage/checkpoint_watch.hpp"

#include <future>

#include "worker/agent/aside.hpp"

namespace stoker::agent {
namespace {
constexpr Duration kLookEvery = 5s;
constexpr Duration kLastLook = 500ms;
}  // namespace

CheckpointWatch::CheckpointWatch(Loop& loop, std::string directory,
                                 std::function<void(Iteration)> saved)
    : loop_(loop), directory_(std::move(directory)), saved_(std::move(saved)) {
  look();
}

CheckpointWatch::~CheckpointWatch() {
  *alive_ = false;
  loop_.cancel(timer_);
}

std::optional<Iteration> CheckpointWatch::last_look() {
  using Found = decltype(watch::newest_foreign_checkpoint(directory_));
  std::promise<Found> promise;
  auto answer = promise.get_future();
  run_aside([promise = std::move(promise), directory = directory_]() mutable {
    promise.set_value(watch::newest_foreign_checkpoint(directory));
  });
  if (answer.wait_for(kLastLook) != std::future_status::ready) return std::nullopt;
  const Found found = answer.get();
  return found ? news_.last(*found) : std::nullopt;
}

void CheckpointWatch::look() {
  timer_ = 0;
  run_aside([this, alive = alive_, &loop = loop_, directory = directory_] {
    const auto found = watch::newest_foreign_checkpoint(directory);
    loop.post([this, alive, found] {
      if (!*alive) return;
      if (found)
        if (const auto saved = news_.take(*found)) saved_(*saved);
      timer_ = loop_.after(kLookEvery, [this] { look(); });
    });
  });
}

}  // namespace stoker::agent
