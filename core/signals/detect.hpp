// Detectors: pure functions of the state and the policy; `now` is an argument where it matters.
// Each says what it saw as a sentence with numbers, or nothing. To add one, write it in a file of
// its own in this folder, and call it where its input arrives:
// * a figure of the training (loss, learning rate, speed): in watch_numbers() of
//   training_health.cpp, with norms.hpp as a model; what it has learned is a member of Health
//   (core/run_state.hpp);
// * how long ranks are silent: declared here, called in core/training/progress.cpp;
// * a deadline: declared here, a row in core/timers.cpp.
// The caller raises the alert (core/alerts/alert_kind.hpp) and resolves it. A golden transcript
// shows what it decides.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/event.hpp"
#include "core/state.hpp"

namespace stoker::core::signals {

// ---- hang
enum class Verdict { Ok, Bad };
struct Hang {
  Verdict verdict = Verdict::Ok;
  std::string evidence;
  wire::Phase phase = wire::Phase::Iteration;  // of the oldest rank
  Duration age{}, deadline{};                  // of the rank that is nearest to its deadline
  std::vector<NodeName> nodes;  // of the ranks that fell silent first; empty: no node is named
};
// The longest silence that is normal in a phase: clamp(3 x p99 of what this run took, floor,
// ceiling of the phase), the ceiling while nothing is learned; doubled as often as it was hit
// twice.
Duration phase_deadline(const RunState& run, wire::Phase phase);
Duration undoubled_deadline(const RunState& run, wire::Phase phase);
inline constexpr std::uint32_t kLargestFactor = 16;
// Judges a digest by the ages in it, which the nodes' own clocks measured; two beats before the
// deadline, so that the verdict is not later than it. A script's: by its logs, at the deadline.
// `awake`: for how long the ranks have not been suspended; no silence is longer.
Hang detect_hang(const RunState& run, const wire::Beat& beat, Duration awake = Duration::max());

// ---- the rest
// Margin before the wall: exit_before_limit, never less than twice the longest save, never more
// than half of the time limit.
Duration limit_margin(const RunState& run);
// When the running task must be ordered to save and exit: before its wall, and before the end of
// its reservation; empty without a known wall, or when nothing can tell it.
std::optional<Instant> limit_at(const SiteState& site, const RunState& run);
// It is the reservation that ends first.
bool reservation_is_first(const SiteState& site, const RunState& run);

std::optional<std::string> chain_dry(const RunState& run);
// Failures without progress, or in all, beyond what the policy allows.
std::optional<std::string> crash_loop(const Budget& budget, const RecoverPolicy& policy);
// No checkpoint for three times the usual interval (learned from three), at least `hang.floor` and
// kSaveOverdueFloor: a run that saves every second loses nothing worth a message by a late one.
inline constexpr Duration kSaveOverdueFloor = 10min;
std::optional<Instant> save_due_by(const RunState& run);
std::optional<std::string> save_overdue(const RunState& run, Instant now);
// A lead agent may be silent this long: network file systems cache attributes for a minute.
Duration lead_patience(const HangPolicy& policy);
// A generation that said goodbye, or whose attempt failed without a restart, must end its job
// within this.
inline constexpr Duration kLimbo = 2min;

}  // namespace stoker::core::signals
