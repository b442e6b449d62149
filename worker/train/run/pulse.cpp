#include "worker/train/run/pulse.hpp"

#include <unistd.h>

#include "worker/train/run/say.hpp"

namespace stoker::train {

Pulse Pulse::open(const std::optional<std::string>& path, Attempt attempt) {
  Pulse pulse;
  pulse.beat_.attempt = attempt;
  pulse.beat_.pid = static_cast<std::uint32_t>(::getpid());
  if (!path) return pulse;
  auto page = wire::HeartbeatPage::open(*path);
  if (page)
    pulse.page_.emplace(std::move(*page));
  else
    complain("no heartbeat: " + page.error().message());
  pulse.phase(wire::Phase::Startup);
  return pulse;
}

void Pulse::write() {
  if (page_) page_->write(beat_);
}

void Pulse::phase(wire::Phase phase) {
  beat_.phase = phase;
  beat_.phase_since = beat_.progress_at = monotonic_now();
  beat_.phase_steps = 0;
  write();
}

void Pulse::progress() {
  beat_.progress_at = monotonic_now();
  ++beat_.phase_steps;
  write();
}

void Pulse::saved(Iteration iteration) {
  beat_.checkpoint = iteration;
  write();
}

void Pulse::answer_saves() {
  if (!page_) return;
  beat_.saves_answered = page_->save_request();
  write();
}

bool Pulse::save_wanted() const {
  return page_ && page_->save_request() > beat_.saves_answered;
}

wire::Leave Pulse::leave() const {
  return page_ ? page_->leave() : wire::Leave::GoOn;
}

std::uint64_t Pulse::enter_collective(const std::string& name, std::uint64_t bytes) {
  return page_ ? page_->enter_collective(name, bytes, monotonic_now()) : 0;
}

void Pulse::leave_collective(std::uint64_t number) {
  if (page_) page_->leave_collective(number, monotonic_now());
}

void Pulse::note_call(Duration took, bool failed) {
  in_calls_ += took;
  peer_lost_ = peer_lost_ || failed;
}

template <class F>
Status TracedComm::traced(const Call& call, std::size_t bytes, F f) {
  const Instant began = monotonic_now();
  const std::uint64_t number = pulse_.enter_collective(call.name, bytes);
  Status done = f();
  if (done) pulse_.leave_collective(number);
  pulse_.note_call(monotonic_now() - began, !done);
  return done;
}

Status TracedComm::all_reduce(Axis axis, Reduce how, Buffer buffer, const Call& call) {
  const TraceSpan span(trace_, TraceRow::Collective, call.name, buffer.bytes());
  return traced(call, buffer.bytes(), [&] { return inner_.all_reduce(axis, how, buffer, call); });
}

Status TracedComm::all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                              const Call& call) {
  const TraceSpan span(trace_, TraceRow::Collective, call.name, bytes);
  return traced(call, bytes, [&] { return inner_.all_gather(axis, mine, bytes, all, call); });
}

Status TracedComm::reduce_scatter(Axis axis, Buffer all, void* mine, const Call& call) {
  const TraceSpan span(trace_, TraceRow::Collective, call.name, all.bytes());
  return traced(call, all.bytes(), [&] { return inner_.reduce_scatter(axis, all, mine, call); });
}

Status TracedComm::send(std::uint32_t to, const void* data, std::size_t bytes, const Call& call) {
  return traced(call, bytes, [&] { return inner_.send(to, data, bytes, call); });
}

Status TracedComm::receive(std::uint32_t from, void* data, std::size_t bytes, const Call& call) {
  return traced(call, bytes, [&] { return inner_.receive(from, data, bytes, call); });
}

}  // namespace stoker::train
