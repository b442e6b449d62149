// The end of the run, as its lead knows it: what counts as one, and the durable mark in front of
// every word about it.
#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>

#include "common/os/fd.hpp"
#include "worker/agent/ending.hpp"
#include "worker/agent/lead.hpp"
#include "worker/agent/patience.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kDaemonsWord = 3s;               // that the rest of the array is cancelled
constexpr Duration kLastCopies = 10min;             // of an allocation that waits for nothing else
constexpr Duration kRoomForTheMark = 60s;           // on a full disk
constexpr int kKillSwitch = 11, kExitReached = 12;  // of stoker-train

bool is_file(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  return fd && ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode);
}

Status write_patiently(const std::string& run_directory, const wire::EndMark& mark) {
  for (const Instant end = monotonic_now() + kRoomForTheMark;;) {
    const Status written = write_end(run_directory, mark);
    if (written || monotonic_now() >= end) return written;
    std::this_thread::sleep_for(1s);
  }
}

}  // namespace

bool trains_with_stoker(const wire::Orders& orders) {
  const std::string& program = orders.command.front();
  return program.substr(program.rfind('/') + 1) == "stoker-train";
}

wire::EndMark Lead::end_mark(wire::End kind, std::string by, std::string why) const {
  wire::EndMark mark;
  mark.run = start_.run;
  mark.generation = start_.generation;
  mark.kind = kind;
  mark.by = std::move(by);
  mark.why = std::move(why);
  mark.iteration = std::max(last_beat_.iteration_max, last_beat_.checkpoint);
  mark.order = start_.orders.number;
  Refused refused;  // the start has reported it
  if (const auto newest = newest_orders(context_.run_directory, refused); newest && *newest)
    mark.order = std::max(mark.order, (*newest)->number);
  mark.token = start_.token;
  mark.job = start_.job;
  mark.at = wall_now();
  return mark;
}

std::optional<wire::EndMark> Lead::stopped_by_switch() const {
  const auto set = kill_switch_set(kill_switch_of(context_, start_.orders));
  if (!set) return std::nullopt;
  return end_mark(wire::End::Stopped, set->by,
                  fmt::format("the kill switch {} was set by {} at {}", set->path, set->by,
                              format_rfc3339(set->at)));
}

// The attempt is over: is the run? `planned`: the exit code, where all ranks left as planned.
std::optional<wire::EndMark> Lead::end_of_run(const wire::AttemptEnded& event,
                                              std::optional<int> planned) const {
  const wire::FinishedWhen& when = start_.orders.finished;
  const bool ours = trains_with_stoker(start_.orders);
  const auto finished = [&](std::string why) {
    return end_mark(wire::End::Finished, "", std::move(why));
  };
  if (!when.file.empty()) {
    const std::string path =
        when.file.front() == '/' ? when.file : context_.run_directory + "/" + when.file;
    if (is_file(path)) return finished(fmt::format("{} is there", when.file));
  }
  auto person = stopped_by_switch();
  const std::uint64_t total = last_beat_.total;
  const std::uint64_t at = std::max(last_beat_.iteration_max, last_beat_.checkpoint).value;
  const bool asked = (event.told || person) && wire::ends_by_exit(when, total);
  if (event.all_zero && (ours || (!asked && wire::reached_end(when, at, total))))
    return finished(fmt::format("all {} rank{} ended with exit code 0 at iteration {}{}",
                                exits_.size(), exits_.size() == 1 ? "" : "s", at,
                                total == 0 ? "" : fmt::format(" of {}", total)));
  if (person) return person;
  // Told to leave without saving, our ranks exit with the same code: that proves nothing.
  if (ours && planned == kKillSwitch && !event.told)
    return end_mark(wire::End::Stopped, "", "the training obeyed its kill switch");
  if (ours && planned == kExitReached)
    return end_mark(wire::End::Stopped, "", "the training reached its exit iteration or samples");
  if (leaving_why_ && stopped_by_) return end_mark(wire::End::Stopped, *stopped_by_, *leaving_why_);
  return std::nullopt;
}

// The mark first, in a thread: the file system may hang. Then the words, then the goodbye.
void Lead::conclude(const wire::EndMark& mark, const std::string& why,
                    std::optional<wire::AttemptEnded> last) {
  if (stage_ == Stage::Leaving || concluding_) return;
  concluding_ = true;
  stage_ = Stage::Waiting;
  loop_.cancel(orphan_timer_);
  std::thread([this, alive = alive_, &loop = loop_, mark, why, last,
               directory = context_.run_directory] {
    const Status written = write_patiently(directory, mark);
    loop.post([this, alive, mark, why, last, written] {
      if (!*alive) return;
      if (!written)
        notice(fmt::format("the end mark cannot be written ({}): the next task may start",
                           written.error().message()));
      end_ = mark;
      if (last) {
        wire::AttemptEnded event = *last;
        event.end = mark;
        tell(std::move(event));
      }
      leave_once_heard(why, monotonic_now());
    });
  }).detach();
}

// A stop that a person asked of the agents themselves is the end of the run, every other one is
// not.
void Lead::leave_as_asked() {
  if (!stopped_by_) return leave(0, *leaving_why_);
  conclude(end_mark(wire::End::Stopped, *stopped_by_, *leaving_why_), *leaving_why_, {});
}

// No generation goes on with the copies that are under way after a finished training; and the
// daemon, if it is there, cancels the array's next task before this one makes room for it.
void Lead::leave_once_heard(const std::string& why, Instant since) {
  if (stage_ != Stage::Waiting) return;
  const Duration waited = monotonic_now() - since;
  const bool copied = leaving_why_ || archiver_->settled() || waited > kLastCopies;
  const bool heard =
      leaving_why_ || !context_.order || !done_.halt.empty() || waited > kDaemonsWord;
  if (copied && heard) return leave(0, why);
  loop_.after(100ms, [this, alive = alive_, why, since] {
    if (*alive) leave_once_heard(why, since);
  });
}

}  // namespace stoker::agent
