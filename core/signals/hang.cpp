// detect_hang: a rank that makes no progress for longer than this run ever needed is not slow, it
// hangs. Progress is micro-batches, evaluation batches, bytes loaded; each phase has its own norm.
// The ranks that all others wait for, or that clearly fell silent before their peers, name their
// nodes, at most two; else no node is named.
#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <span>

#include "core/sentence.hpp"
#include "core/signals/detect.hpp"

namespace stoker::core::signals {
namespace {

constexpr std::uint64_t kIterationsToLearn = 8;
constexpr std::uint64_t kPhasesToLearn = 3;
constexpr std::size_t kNamedRanks = 4;
constexpr std::size_t kNamedNodes = 2;  // more of them at once are no fault of a node

Duration ceiling_of(const HangPolicy& policy, wire::Phase phase) {
  switch (phase) {
    case wire::Phase::Startup: return policy.startup;
    case wire::Phase::Load: return policy.load;
    case wire::Phase::Iteration: return policy.ceiling;
    case wire::Phase::Evaluation: return policy.evaluation;
    case wire::Phase::Checkpoint: return policy.checkpoint;
    case wire::Phase::Shutdown: return policy.shutdown;
  }
  return policy.ceiling;
}

Duration age_of(const wire::RankAge& rank, const wire::Beat& beat) {
  const std::int64_t ms = rank.age_ms < 0 ? beat.phase_age_ms : rank.age_ms;
  return std::chrono::milliseconds(std::clamp<std::int64_t>(ms, 0, 1'000'000'000));
}

std::string name_ranks(const std::vector<const wire::RankAge*>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < kNamedRanks; ++i)
    text += fmt::format("{}rank {} on {}", i == 0 ? "" : ", ", ranks[i]->rank.value,
                        ranks[i]->node.text);
  if (ranks.size() > kNamedRanks) text += fmt::format(" and {} more", ranks.size() - kNamedRanks);
  return text;
}

// A gap between two silences that shows who came first: always `sure`, that of a whole iteration;
// `least`, a quarter of one, where the ages on either side differ by less than half of it.
struct Gaps {
  Duration least = 20ms, sure = Duration::max();
};

Gaps gaps_of(const RunState& run) {
  Gaps gaps;
  const auto found = run.health.phases.find(std::string(stoker::name_of(wire::Phase::Iteration)));
  if (found == run.health.phases.end() || found->second.durations.count() == 0) return gaps;
  const auto& durations = found->second.durations;
  gaps.least = std::max(gaps.least, *durations.quantile(500) / 4);
  gaps.sure = std::max(4 * gaps.least, *durations.quantile(990));
  return gaps;
}

bool lags_all(const wire::RankAge& rank, std::span<const wire::RankAge> others) {
  return rank.age_ms >= 0 && !others.empty() &&
         std::ranges::all_of(others, [&](const wire::RankAge& other) {
           return other.age_ms >= 0 && other.iteration > rank.iteration;
         });
}

// Whom all others wait for: the ranks outside of any collective while the others are inside one.
// Their ages say nothing then: who came late to the collective before is younger than those who
// waited for it. Empty: it is not known of every rank.
std::optional<std::vector<const wire::RankAge*>> waited_for(const wire::Beat& beat) {
  std::vector<const wire::RankAge*> outside;
  for (const wire::RankAge& rank : beat.oldest)
    if (rank.waiting == false) outside.push_back(&rank);
  if (beat.waiting == 0 || beat.waiting + outside.size() != beat.ranks) return std::nullopt;
  return outside;
}

// Who fell silent first; empty where that is not clear. The peers of a frozen rank, or of the ranks
// of a frozen node, stall in the next collective, a little later than it did: it lags an iteration,
// or there is a gap between its age and theirs. Ranks frozen inside a collective leave no such gap;
// whose age is the greatest is chance then.
std::vector<const wire::RankAge*> first_to_fall_silent(const RunState& run,
                                                       const wire::Beat& beat) {
  if (beat.reporting == 0) return {};
  const std::span<const wire::RankAge> oldest = beat.oldest;
  const Gaps gaps = gaps_of(run);
  const Duration newest = std::chrono::milliseconds(beat.newest_progress_age_ms);
  const Duration unlisted =
      beat.next_age_ms < 0 ? newest : std::chrono::milliseconds(beat.next_age_ms);
  std::vector<const wire::RankAge*> first;
  for (std::size_t i = 0; i < oldest.size() && i + 1 < beat.ranks; ++i) {
    first.push_back(&oldest[i]);
    const auto others = oldest.subspan(i + 1);
    if (std::ranges::all_of(first, [&](const auto* rank) { return lags_all(*rank, others); }))
      return first;
    const Duration age = age_of(oldest[i], beat);
    const Duration next = others.empty() ? unlisted : age_of(others.front(), beat);
    const Duration spread = std::max(next - newest, age_of(oldest.front(), beat) - age);
    if (age - next > std::min(gaps.sure, std::max(2 * spread, gaps.least))) return first;
  }
  return {};
}

bool is_our_core(const TrainPolicy& train) {  // its pages do not depend on any output
  if (train.command.empty()) return false;
  const std::string& program = train.command.front();
  return program.substr(program.rfind('/') + 1) == "stoker-train";
}

// A start-up that reaches its limit while no rank has shown progress: the most frequent cause is
// output that still waits in the training's own buffer.
std::string buffer_hint(const RunState& run, const wire::Beat& beat, const Hang& hang) {
  if (hang.phase != wire::Phase::Startup || beat.reporting > 0 || is_our_core(run.policy.train))
    return "";
  const auto& environment = run.policy.train.environment;
  const auto set = environment.find("PYTHONUNBUFFERED");
  const bool unbuffered =
      has_agents(run.policy) && (set == environment.end() || !set->second.empty());
  return unbuffered
             ? "; no iteration line yet: is stdout buffered? PYTHONUNBUFFERED=1 is set, other "
               "programs need stdbuf -oL; or stoker does not know the form of the lines "
               "(watch.progress)"
             : "; no iteration line yet: is stdout buffered? PYTHONUNBUFFERED=1";
}

// It is judged shortly before the limit (judged_from): said so, where the age is still below it.
std::string limit_text(const Hang& hang) {
  return fmt::format("limit {}{}", format_duration(hang.deadline),
                     hang.age < hang.deadline ? ", reached before the next heartbeat" : "");
}

std::string stalled_text(const RunState& run, const wire::Beat& beat, const Hang& hang) {
  return fmt::format("all {} made no progress for {} in phase {} ({}), {}{}",
                     count_text(beat.ranks, "rank"), format_duration(hang.age),
                     stoker::name_of(hang.phase), limit_text(hang), where_text(run),
                     buffer_hint(run, beat, hang));
}

std::string silent_text(const RunState& run, const wire::Beat& beat, const Hang& hang,
                        const std::vector<const wire::RankAge*>& silent) {
  return fmt::format(
      "{} made no progress for {} in phase {} ({}) while its peers among the {} ranks moved "
      "{} "
      "ago, {}",
      name_ranks(silent), format_duration(hang.age), stoker::name_of(hang.phase), limit_text(hang),
      beat.ranks, format_duration(std::chrono::milliseconds(beat.newest_progress_age_ms)),
      where_text(run));
}

// The age at which a rank is judged: two beats early, so that the verdict is not later than the
// deadline although the newest beat is old by up to one. Logs of a script are read when the
// question is asked: their silence is judged when it is as long as the limit, not before.
Duration judged_from(const RunState& run, Duration deadline) {
  return deadline - (has_agents(run.policy) ? 2 : 0) * wire::beat_every(run.policy.hang.floor);
}

// The ranks that a hang is held against, and whether that is sure enough to name their nodes.
struct Blamed {
  std::vector<const wire::RankAge*> ranks;
  bool waited_for = false;  // the others' collective names them, not their ages
  bool sure = false;
};

// `silent`: the ranks beyond their limits. `judged`: the age at which the hang is one.
Blamed blame(const RunState& run, const wire::Beat& beat,
             const std::vector<const wire::RankAge*>& silent, Duration judged) {
  const auto outside = waited_for(beat);
  Blamed blamed{outside ? *outside : first_to_fall_silent(run, beat), outside.has_value(), false};
  blamed.sure = !blamed.ranks.empty() && std::ranges::all_of(blamed.ranks, [&](const auto* rank) {
    return outside ? age_of(*rank, beat) >= judged / 2 : std::ranges::count(silent, rank) > 0;
  });
  return blamed;
}

std::string hang_text(const RunState& run, const wire::Beat& beat, const Hang& hang,
                      const std::vector<const wire::RankAge*>& silent, const Blamed& blamed,
                      bool all_stalled) {
  std::string text = all_stalled
                         ? stalled_text(run, beat, hang)
                         : silent_text(run, beat, hang, blamed.sure ? blamed.ranks : silent);
  if (blamed.sure && blamed.waited_for)
    text += fmt::format("; all others wait in a collective for {}", name_ranks(blamed.ranks));
  else if (blamed.sure && all_stalled)
    text += fmt::format("; {} fell silent first", name_ranks(blamed.ranks));
  else if (!blamed.sure && !all_stalled)
    text += "; which rank fell silent first is not clear: no node is named";
  return text;
}

}  // namespace

Duration undoubled_deadline(const RunState& run, wire::Phase phase) {
  const HangPolicy& policy = run.policy.hang;
  // Logs of a script do not tell when it begins to load, to evaluate or to save: nothing is
  // learned.
  const bool learns = has_agents(run.policy);
  Duration ceiling = std::max(policy.floor, ceiling_of(policy, phase));
  if (!learns && phase == wire::Phase::Startup) ceiling += policy.load;
  const auto found = run.health.phases.find(std::string(stoker::name_of(phase)));
  if (found == run.health.phases.end()) return ceiling;
  const PhaseFacts& facts = found->second;
  const std::uint64_t enough =
      phase == wire::Phase::Iteration ? kIterationsToLearn : kPhasesToLearn;
  Duration limit = ceiling;
  if (learns && facts.durations.count() >= enough)
    limit = std::clamp(3 * *facts.durations.quantile(990), policy.floor, ceiling);
  return limit;
}

Duration phase_deadline(const RunState& run, wire::Phase phase) {
  const auto found = run.health.phases.find(std::string(stoker::name_of(phase)));
  const std::uint32_t factor = found == run.health.phases.end() ? 1 : found->second.factor;
  return undoubled_deadline(run, phase) * std::clamp<std::uint32_t>(factor, 1, kLargestFactor);
}

Hang detect_hang(const RunState& run, const wire::Beat& beat, Duration awake) {
  Hang hang;
  hang.phase = beat.phase;
  hang.deadline = phase_deadline(run, beat.phase);
  hang.age = std::chrono::milliseconds(std::max<std::int64_t>(0, beat.progress_age_ms));
  if (beat.reporting == 0)
    hang.age = std::chrono::milliseconds(std::max<std::int64_t>(0, beat.phase_age_ms));
  hang.age = std::min(hang.age, awake);
  std::vector<const wire::RankAge*> silent;
  Duration nearest = hang.deadline - hang.age;
  for (const wire::RankAge& rank : beat.oldest) {
    const Duration limit = phase_deadline(run, rank.phase);
    const Duration age = std::min(age_of(rank, beat), awake);
    if (age >= judged_from(run, limit)) silent.push_back(&rank);
    if (limit - age < nearest || (limit - age == nearest && &rank == &beat.oldest.front())) {
      nearest = limit - age;
      hang.phase = rank.phase;
      hang.age = age;
      hang.deadline = limit;
    }
  }
  const Duration judged = judged_from(run, hang.deadline);
  if (hang.age < judged) return hang;
  hang.verdict = Verdict::Bad;
  const Duration newest =
      std::chrono::milliseconds(std::max<std::int64_t>(0, beat.newest_progress_age_ms));
  const Blamed blamed = blame(run, beat, silent, judged);
  const bool all_stalled = newest >= judged || silent.empty() || (blamed.waited_for && blamed.sure);
  hang.evidence = hang_text(run, beat, hang, silent, blamed, all_stalled);
  std::set<NodeName> nodes;
  for (const wire::RankAge* rank : blamed.ranks) nodes.insert(rank->node);
  if (blamed.sure && nodes.size() <= kNamedNodes) hang.nodes.assign(nodes.begin(), nodes.end());
  return hang;
}

}  // namespace stoker::core::signals
