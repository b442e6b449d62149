#include "worker/agent/storage/archiver.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/agent/aside.hpp"
#include "worker/agent/storage/claim.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kFirstPause = 1min, kLongestPause = 30min;
constexpr Duration kPulseEvery = 5min;  // without one byte: the disk does not answer

// The training's own reading and writing goes first (linux/ioprio.h: class 3 is idle).
void step_back() {
  constexpr int kWhoProcess = 1, kIdle = 3 << 13;
  (void)::syscall(SYS_ioprio_set, kWhoProcess, 0, kIdle);
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 19);
}

std::string name_of_id(const wire::CheckpointId& id) {
  return wire::checkpoint_name(id.iteration, id.generation);
}

}  // namespace

struct Archiver::Job {
  wire::Start start;
  ArchiveRule rule;
  std::string run_directory, checkpoints;
  std::set<wire::CheckpointId> copied, refused;
  std::shared_ptr<CopyPulse> pulse;
};

Archiver::Archiver(Wiring wiring, const wire::Start& start)
    : wiring_(std::move(wiring)),
      start_(start),
      rule_{start.orders.archive_to, start.orders.archive_every,
            start.orders.archive_without_optimizer} {
  if (start_.orders.checkpoint_format != "stoker") rule_.to.clear();  // not ours to judge
  start_.orders.verify_checkpoints = false;  // read while they are copied: once is enough
}

Archiver::~Archiver() {
  *alive_ = false;
  pulse_->stop = true;
  for (Loop::Timer* timer : {&retry_, &pulse_timer_}) wiring_.loop.cancel(*timer);
}

bool Archiver::must_stay(const wire::CheckpointId& id) const {
  return rule_.wants(id) && !copied_.contains(id);
}

void Archiver::look() {
  if (rule_.to.empty()) return;
  again_ = true;
  if (busy_) return;
  wiring_.loop.cancel(retry_);
  busy_ = true;
  again_ = false;
  pieces_ = pulse_->pieces;
  wiring_.loop.cancel(pulse_timer_);
  pulse_timer_ = wiring_.loop.after(kPulseEvery, [this] { check_pulse(); });
  run_aside([this, alive = alive_, &loop = wiring_.loop,
             job = Job{start_, rule_, wiring_.run_directory, wiring_.checkpoints, copied_, refused_,
                       pulse_}] {
    step_back();
    Round round = run_round(job);
    loop.post([this, alive, round = std::move(round)]() mutable {
      if (*alive) on_round(std::move(round));
    });
  });
}

Archiver::Round Archiver::run_round(const Job& job) {
  Round round;
  round.copied = job.copied;  // also while the archive cannot be read
  const auto newest = newest_generation(job.run_directory);
  if (!newest || *newest != job.start.generation) return round;  // the younger one's lead copies
  std::set<wire::CheckpointId> known;
  auto survey = survey_checkpoints(job.checkpoints, job.start, known);
  round.foreign = std::move(survey.foreign);
  auto& complete = survey.complete;
  std::erase_if(complete, [&](const auto& c) { return job.refused.contains(c.id); });
  auto copied = archived_checkpoints(job.rule, job.start.run.text);
  if (copied) round.copied = std::move(*copied);
  const auto due = choose_archivable(complete, job.rule, round.copied);
  if (due.empty()) return round;
  if (!copied) {
    const Error& why = copied.error();
    round.failure = why.message();
    round.told.emplace_back(wire::ArchiveFailed{due.front().iteration, name_of_id(due.front()),
                                                job.rule.to, round.failure,
                                                static_cast<std::uint32_t>(due.size())});
    return round;
  }
  remove_archive_leftovers(job.rule, job.start.run.text, {due.begin(), due.end()});
  copy_next(job, due, round);
  return round;
}

void Archiver::copy_next(const Job& job, const std::vector<wire::CheckpointId>& due, Round& round) {
  const wire::CheckpointId id = due.front();
  const std::string name = name_of_id(id);
  const Instant began = monotonic_now();
  ArchiveCopy copy;
  const Status done = copy_checkpoint(job.checkpoints + "/" + name, job.rule, job.start.generation,
                                      *job.pulse, copy);
  if (done) {
    round.done = true;
    round.more = due.size() > 1;
    round.copied.insert(id);
    round.told.emplace_back(wire::CheckpointArchived{id.iteration, name, copy.path, copy.bytes,
                                                     to_seconds(monotonic_now() - began),
                                                     job.rule.without_optimizer});
    return;
  }
  const auto newest = newest_generation(job.run_directory);
  if (!newest || *newest != job.start.generation) return;  // it was taken over
  round.failure = done.error().message();
  const bool hopeless = copy.source_damaged || copy.name_taken;
  round.more = hopeless && due.size() > 1;
  if (hopeless) round.refused = id;
  round.told.emplace_back(wire::ArchiveFailed{id.iteration, name, job.rule.to, round.failure,
                                              static_cast<std::uint32_t>(due.size())});
}

void Archiver::on_round(Round round) {
  busy_ = false;
  wiring_.loop.cancel(pulse_timer_);
  copied_ = std::move(round.copied);
  if (round.refused != wire::CheckpointId{}) refused_.insert(round.refused);
  const bool pruner_tells = start_.orders.keep_last > 0;
  if (!round.foreign.empty() && !pruner_tells && !std::exchange(foreign_told_, true))
    wiring_.tell(wire::Notice{start_.lead, round.foreign});
  if (round.failure.empty() || round.failure != failure_)
    for (const wire::AgentBody& body : round.told) wiring_.tell(body);
  failure_ = round.failure;
  if (round.done && wiring_.copied) wiring_.copied();
  if (round.failure.empty()) pause_ = Duration{};
  if (round.more || again_) return look();
  if (round.failure.empty() || round.refused != wire::CheckpointId{}) return;
  pause_ = std::clamp<Duration>(2 * pause_, kFirstPause, kLongestPause);
  retry_ = wiring_.loop.after(pause_, [this] {
    retry_ = 0;
    look();
  });
}

// A disk that does not answer at all holds the thread, not the loop.
void Archiver::check_pulse() {
  pulse_timer_ = wiring_.loop.after(kPulseEvery, [this] { check_pulse(); });
  const std::uint64_t now = pulse_->pieces;
  const std::string why =
      fmt::format("{}: no answer for {}", rule_.to, format_duration(kPulseEvery));
  if (now == pieces_ && failure_ != why) {
    failure_ = why;
    wiring_.tell(wire::ArchiveFailed{{}, "", rule_.to, why, 0});
  }
  pieces_ = now;
}

}  // namespace stoker::agent
