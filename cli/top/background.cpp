// One request is under way at a time; a request that was given up is answered late.
#include "cli/top/background.hpp"

#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>

namespace stoker::cli::top {
namespace {

constexpr Duration kFarewell = 100ms;

}  // namespace

struct Background::Shared {
  std::function<View(const Selection&)> look;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Selection> wanted;
  std::optional<View> answer;
  std::exception_ptr error;
  bool busy = false, ending = false, ended = false;
};

Background::Background(std::function<View(const Selection&)> look)
    : shared_(std::make_shared<Shared>()) {
  shared_->look = std::move(look);
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);  // signals are for the thread that draws
  std::thread([shared = shared_] { serve(shared); }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Background::~Background() {
  std::unique_lock lock(shared_->mutex);
  shared_->ending = true;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, kFarewell, [this] { return shared_->ended; });
}

void Background::serve(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->ending || shared->wanted.has_value(); });
    if (shared->ending) break;
    const Selection selection = *std::exchange(shared->wanted, std::nullopt);
    shared->busy = true;
    lock.unlock();
    std::optional<View> view;
    std::exception_ptr error;
    try {
      view = shared->look(selection);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    shared->busy = false;
    shared->answer = std::move(view);
    shared->error = error;
    shared->changed.notify_all();
  }
  shared->ended = true;
  shared->changed.notify_all();
}

const View& Background::look(const Selection& selection, WallTime now, Duration patience) {
  std::unique_lock lock(shared_->mutex);
  shared_->answer.reset();
  if (!shared_->busy) shared_->wanted = selection;
  shared_->changed.notify_all();
  shared_->changed.wait_for(lock, patience,
                            [this] { return shared_->answer.has_value() || shared_->error; });
  if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
  if (shared_->answer) {
    view_ = *std::exchange(shared_->answer, std::nullopt);
    hangs_since_.reset();
    view_.unread = {};
    return view_;
  }
  if (!hangs_since_) hangs_since_ = now;
  view_.now = now;
  view_.unread = now - *hangs_since_ + patience;
  return view_;
}

}  // namespace stoker::cli::top
