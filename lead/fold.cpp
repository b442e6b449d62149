// Samples -> Beat.
#include "lead/fold.hpp"

#include <algorithm>
#include <array>

namespace stoker::lead {
namespace {

constexpr std::size_t kOldest = 8, kOutside = 4;

struct Weighted {
  double ms;
  std::uint64_t count;
};

wire::Quantiles quantiles_of(std::vector<Weighted> values) {
  wire::Quantiles q;
  std::sort(values.begin(), values.end(),
            [](const Weighted& a, const Weighted& b) { return a.ms < b.ms; });
  for (const Weighted& v : values) q.count += v.count;
  if (q.count == 0) return q;
  const auto at = [&](std::uint64_t position) {
    for (const Weighted& v : values) {
      if (position < v.count) return v.ms;
      position -= v.count;
    }
    return values.back().ms;
  };
  q.p50 = at((q.count - 1) / 2);
  q.p99 = at((q.count - 1) * 99 / 100);
  q.max = values.back().ms;
  return q;
}

// The rank that speaks for the training: furthest on, with a loss if any has one.
bool speaks_better(const wire::RankSample& a, const wire::RankSample& b) {
  if (a.iteration != b.iteration) return a.iteration > b.iteration;
  return a.loss.has_value() && !b.loss.has_value();
}

bool any_page(const std::map<NodeName, NodeSamples>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const auto& entry) {
    const auto& ranks = entry.second.ranks;
    return std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.page; });
  });
}

std::uint64_t told(const wire::StepLosses& losses) {
  return losses.count + losses.not_finite;
}

// A foreign training: often one rank prints the iterations and another one the saves. What the
// latter said last holds for those that have been silent longer than it.
struct Word {
  wire::Phase phase = wire::Phase::Iteration;
  std::int64_t phase_age_ms = 0, age_ms = std::numeric_limits<std::int64_t>::max();
};
Word latest_word(const std::map<NodeName, NodeSamples>& nodes) {
  Word latest;
  for (const auto& [name, node] : nodes)
    for (const wire::RankSample& s : node.ranks) {
      if (s.page) return {};
      const std::int64_t age = s.progress_age_ms + node.age_ms;
      if (s.reported || s.phase == wire::Phase::Startup || age >= latest.age_ms) continue;
      latest = {s.phase, s.phase_age_ms + node.age_ms, age};
    }
  return latest;
}

void take_voice(wire::Beat& beat, const wire::RankSample& voice) {
  beat.total = voice.total;
  beat.consumed_samples = voice.consumed_samples;
  beat.consumed_tokens = voice.consumed_tokens;
  beat.loss = voice.loss;
  beat.learning_rate = voice.learning_rate;
  beat.gradient_norm = voice.gradient_norm;
  beat.tflops = voice.tflops;
}

// One rank sends the norms of all groups, and not always the one whose losses are taken.
void take_groups(wire::StepLosses& losses, const std::map<NodeName, NodeSamples>& nodes) {
  if (!losses.groups.empty()) return;
  for (const auto& [name, node] : nodes)
    for (const wire::RankSample& s : node.ranks)
      if (!s.losses.groups.empty()) {
        losses.groups = s.losses.groups;
        return;
      }
}

// All ranks wait for the slowest one in each iteration: only their compute times differ.
void take_slowest(wire::Beat& beat, std::vector<Weighted>& computes,
                  const wire::SlowestRank& most) {
  if (computes.size() < 2 || computes.size() < beat.reporting) return;
  const auto middle = computes.begin() + static_cast<std::ptrdiff_t>((computes.size() - 1) / 2);
  std::nth_element(computes.begin(), middle, computes.end(),
                   [](const Weighted& a, const Weighted& b) { return a.ms < b.ms; });
  beat.slowest = most;
  beat.slowest->median_ms = middle->ms;
}

// What the nodes have least of, and the power of all; 0 where one does not measure it.
void take_nodes(wire::Beat& beat, const std::map<NodeName, NodeSamples>& nodes) {
  bool all_measure = true;
  for (const auto& [name, node] : nodes) {
    const auto least = [](auto a, auto b) { return a == 0 ? b : std::min(a, b); };
    beat.free_memory_bytes = least(beat.free_memory_bytes, node.free_memory_bytes);
    beat.free_shm_bytes = least(beat.free_shm_bytes, node.free_shm_bytes);
    all_measure = all_measure && node.gpu_watts > 0;
    beat.gpu_watts += node.gpu_watts;
  }
  if (!all_measure) beat.gpu_watts = 0;
}

// Of `ages`, which are sorted, the first kOldest; where at most kOutside ranks are outside of any
// collective, these among them.
template <class Age>
void take_oldest(wire::Beat& beat, const std::vector<wire::RankAge>& ages, Age age) {
  const auto count = [&](bool waiting) {
    return static_cast<std::uint32_t>(std::count_if(
        ages.begin(), ages.end(), [&](const auto& a) { return a.waiting == waiting; }));
  };
  beat.waiting = count(true);
  const std::uint32_t outside = count(false);
  const bool few = outside <= kOutside;
  std::size_t room = kOldest - (few ? outside : 0);
  for (const wire::RankAge& a : ages) {
    const bool first = few && a.waiting == false;
    if (first || room > 0)
      beat.oldest.push_back(a);
    else if (beat.next_age_ms < 0)
      beat.next_age_ms = age(a);
    if (!first && room > 0) --room;
  }
}

}  // namespace

wire::Beat fold_beat(Attempt attempt, const std::map<NodeName, NodeSamples>& nodes,
                     std::int64_t attempt_age_ms, std::int64_t awake_ms) {
  wire::Beat beat;
  beat.attempt = attempt;
  std::array<std::uint32_t, 6> phases{};
  std::vector<wire::RankAge> ages;
  std::vector<Weighted> durations;
  const wire::RankSample* voice = nullptr;
  const wire::StepLosses* losses = nullptr;
  std::vector<Weighted> computes;
  wire::SlowestRank slowest;
  const Word word = latest_word(nodes);
  const auto outdated = [&word](const wire::RankSample& s, std::int64_t age_ms) {
    return s.reported && s.progress_age_ms + age_ms > word.age_ms;
  };
  const bool pages = any_page(nodes);
  for (const auto& [name, node] : nodes) {
    for (const wire::RankSample& s : node.ranks) {
      ++beat.ranks;
      // One rank may print the iterations of a foreign training, and another one its saves.
      beat.checkpoint = std::max(beat.checkpoint, s.checkpoint);
      if (s.reported) {
        if (beat.reporting++ == 0) beat.iteration_min = s.iteration;
        beat.iteration_min = std::min(beat.iteration_min, s.iteration);
        beat.iteration_max = std::max(beat.iteration_max, s.iteration);
        beat.saves_answered = std::max(beat.saves_answered, s.saves_answered);
        if (s.completed > 0 && s.iteration_ms <= static_cast<double>(awake_ms))
          durations.push_back({s.iteration_ms, s.completed});
        if (voice == nullptr || speaks_better(s, *voice)) voice = &s;
        if (losses == nullptr || told(s.losses) > told(*losses)) losses = &s.losses;
        if (s.compute_ms > 0) computes.push_back({s.compute_ms, 1});
        if (s.compute_ms > slowest.ms) slowest = {s.rank, name, s.compute_ms, 0};
      } else if (!pages) {
        continue;  // a foreign training where one rank prints for all
      }
      const bool by_word = outdated(s, node.age_ms);
      const wire::Phase phase = by_word ? word.phase : s.phase;
      ++phases[static_cast<std::size_t>(phase)];
      const std::int64_t own = s.reported ? s.progress_age_ms + node.age_ms : -1;
      const std::int64_t age = std::min(by_word ? word.age_ms : own, awake_ms);
      ages.push_back({s.rank, name, age, phase, s.iteration, s.waiting});
    }
  }
  if (voice != nullptr) take_voice(beat, *voice);
  if (losses != nullptr) beat.losses = *losses;
  take_groups(beat.losses, nodes);
  take_slowest(beat, computes, slowest);
  take_nodes(beat, nodes);
  beat.iteration_ms = quantiles_of(std::move(durations));
  beat.phase =
      static_cast<wire::Phase>(std::max_element(phases.begin(), phases.end()) - phases.begin());
  beat.phase_age_ms = beat.reporting == 0 ? attempt_age_ms : -1;
  for (const auto& [name, node] : nodes)
    for (const wire::RankSample& s : node.ranks) {
      const bool by_word = outdated(s, node.age_ms);
      const auto since = by_word ? word.phase_age_ms : s.phase_age_ms + node.age_ms;
      if (s.reported && (by_word ? word.phase : s.phase) == beat.phase)
        beat.phase_age_ms = std::max(beat.phase_age_ms, std::min(since, awake_ms));
    }
  const auto effective = [attempt_age_ms](const wire::RankAge& a) {
    return a.age_ms < 0 ? attempt_age_ms : a.age_ms;
  };
  std::stable_sort(ages.begin(), ages.end(),
                   [&](const auto& a, const auto& b) { return effective(a) > effective(b); });
  beat.progress_age_ms = ages.empty() ? attempt_age_ms : effective(ages.front());
  beat.newest_progress_age_ms = ages.empty() ? attempt_age_ms : effective(ages.back());
  take_oldest(beat, ages, effective);
  return beat;
}

}  // namespace stoker::lead
