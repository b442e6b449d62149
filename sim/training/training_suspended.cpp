// A suspended job: its agents and ranks stand still together, and go on where they were.
#include <fmt/format.h>

#include "sim/training/training.hpp"

namespace stoker::sim {
namespace {

constexpr Duration kRealBeat = 1s;  // the simulated lead beats seldom (training.cpp)

}  // namespace

bool Training::suspend(Duration lasts) {
  SimGeneration* g = live();
  // What waits for storage goes on to wait by another clock than its own.
  if (g == nullptr || g->zombie || g->stand.since || hooks_.storage_free() > time_.now())
    return false;
  const auto job = cluster_.jobs().find(g->job);
  if (job == cluster_.jobs().end() ||
      job->second.state.at(g->task).state != core::JobState::Running)
    return false;
  cluster_.suspend(g->job, g->task, true);
  hooks_.say(fmt::format("job {}_{} is suspended", g->job, g->task));
  g->stand.since = time_.now();
  g->stand.all += lasts;
  Instant& beat = g->lead.state.beat_at;
  if (beat != Instant{}) beat = std::min(beat, time_.now() + kRealBeat);
  time_.after(lasts, [this, number = g->number, since = time_.now()] {
    SimGeneration& then = generations_.at(number);
    if (then.stand.since == since) go_on(then);
  });
  return true;
}

void Training::go_on(SimGeneration& g) {
  const Instant since = *g.stand.since;
  g.stand.since.reset();
  g.stand.began = since;
  g.stand.ended = time_.now();
  cluster_.suspend(g.job, g.task, false);
  if (!g.alive) return;
  g.stage_since += time_.now() - since;
  hooks_.say(fmt::format("job {}_{} goes on", g.job, g.task));
  feed(g, look(g));
  const auto text = files_.content.find("/runs/sim/control.json");
  if (text == files_.content.end() || g.zombie) return;
  if (const auto control = from_json_text<wire::Control>(text->second, "control"))
    feed(g, lead::ControlRead{*control});
}

// What a clock that went on shows of something that has worked for so long without the standstill.
Duration Training::age_of(const SimGeneration& g, Duration worked) const {
  if (g.stand.ended == Instant{} || worked < time_.now() - g.stand.ended) return worked;
  return worked + (g.stand.ended - g.stand.began);
}

}  // namespace stoker::sim
