#include "daemon/loop/errands.hpp"

#include <atomic>
#include <utility>

namespace stoker::daemon {
namespace {

constexpr Duration kStopLimit = 5s;

std::atomic<bool> left_some_behind{false};

}  // namespace

void Errands::post(const std::string& lane, std::function<void()> job) {
  lanes_.collect();  // what is done needs no more notice
  lanes_.start(++last_, lane, kNoLimit, [job = std::move(job)]() -> Result<bool> {
    job();
    return true;
  });
}

void Errands::stop() {
  if (!lanes_.finish(kStopLimit)) left_some_behind = true;
}

bool Errands::left_behind() {
  return left_some_behind;
}

}  // namespace stoker::daemon
