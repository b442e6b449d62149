// DigestFolder: folds the beats of a generation into digests. Pure: what it gives is a function of
// the beats since the digest before and of that digest, so reading the same bytes in other pieces
// gives the same digests. Emission: at once on an edge, else when `interval` has passed by the
// writer's clock and more than ages has changed; never twice the same. flush() gives what is
// pending, for the Tick that wants to judge ages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/event.hpp"

namespace stoker::watch {

// min(30 s, floor / 2): how often a digest is journalled at most while nothing special happens.
Duration digest_interval(Duration hang_floor);

struct FolderState {                  // part of core::Cursor::parser_state
  std::optional<wire::Beat> told;     // of the last digest
  Instant told_at;                    // by the writer's clock
  std::optional<wire::Beat> pending;  // newest beat since
  Instant pending_at;
  std::vector<wire::Quantiles> parts;  // iteration times since the last digest, one a beat
  wire::StepLosses losses;             // since the last digest
  STOKER_FIELDS(FolderState, told, told_at, pending, pending_at, parts, losses)
};

class DigestFolder {
 public:
  DigestFolder(Generation generation, Duration interval)
      : generation_(generation), interval_(interval) {}

  // A beat as read; `at` is its writer's clock.
  std::optional<core::Digest> beat(const wire::Beat& beat, Instant at);
  std::optional<core::Digest> flush();
  void forget_pending();  // the generation is not the newest any more

  [[nodiscard]] const FolderState& state() const { return state_; }
  void restore(FolderState state) { state_ = std::move(state); }

 private:
  core::Digest emit();
  [[nodiscard]] bool is_edge(const wire::Beat& beat) const;

  Generation generation_;
  Duration interval_;
  FolderState state_;
};

// Quantiles of several beats: exact for beats of one iteration each, else from their medians,
// weighted by count; the maximum is exact.
wire::Quantiles merge_quantiles(const std::vector<wire::Quantiles>& parts);

}  // namespace stoker::watch
