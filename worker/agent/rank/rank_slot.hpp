// One rank of one attempt: what it printed (lines, events, progress), its heartbeat page, and the
// sample that goes into the node's beat. No processes here: testable with bytes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "diagnose/parse/phase_line.hpp"
#include "diagnose/parse/progress_reader.hpp"
#include "wire/agent_event.hpp"
#include "worker/agent/hidden_values.hpp"
#include "worker/agent/link/protocol.hpp"
#include "worker/agent/rank/output.hpp"

namespace stoker::agent {

struct SlotSinks {
  std::function<void(std::string_view bytes)> raw;    // for ranks/<rank>.log
  std::function<void(std::string_view line)> merged;  // "[n01:3] text\n" for main.log
  std::function<void(wire::AgentBody)> event;         // reported by the training
};

class RankSlot {
 public:
  RankSlot(NodeName node, Rank rank, Attempt attempt, const diagnose::ProgressReader& progress,
           SlotSinks sinks);

  void feed(int stream, std::string_view bytes, Instant now);  // stream 1 or 2
  void finish(Instant now);                                    // the end of its output
  void attach_page(wire::HeartbeatPage page) { page_ = std::move(page); }
  // It has not begun yet: its silence counts from now.
  void wait(Instant now) { started_ = progress_at_ = phase_since_ = now; }
  [[nodiscard]] wire::HeartbeatPage* page() { return page_ ? &*page_ : nullptr; }

  // A checkpoint of a training without a heartbeat page is there.
  void note_checkpoint(Iteration iteration);
  // The same where the training has left with 0: it came as far, though its last line may say less.
  void note_last_checkpoint(Iteration iteration);
  // Reads the page. True: the phase, the last checkpoint or the answered saves changed, so the
  // beat should go out at once.
  bool look(Instant now);
  // The sample since the last one taken: `completed` starts again.
  RankSample take_sample(Instant now);
  [[nodiscard]] bool speaks_page() const { return sample_.page; }
  [[nodiscard]] const RankSample& sample() const { return sample_; }
  [[nodiscard]] std::string last_lines() const;
  // For the rank's environment: what an event line begins with. In no log: `raw` and `merged` get
  // "(hidden)" for it.
  [[nodiscard]] const std::string& event_word() const { return event_word_; }

  Rank rank;

 private:
  void on_line(std::string_view line, int stream, Instant now);
  // The JSON of an event line with our word.
  [[nodiscard]] std::optional<std::string_view> event_in(std::string_view line) const;
  void on_event_line(std::string_view json);
  [[nodiscard]] Iteration reached() const;
  void note_losses(const wire::Heartbeat& beat);
  void note_progress(const diagnose::IterationMetrics& progress, Instant now);
  // Of a training without heartbeat pages: what a line says about its phase. A rank that prints no
  // iterations may still speak for all ("saving checkpoint"): fold.cpp.
  void note_phase(diagnose::PhaseMark mark, Instant now);
  void note_loaded(Iteration iteration);

  NodeName node_;
  Attempt attempt_;
  const diagnose::ProgressReader& progress_;
  SlotSinks sinks_;
  std::string prefix_, event_word_;
  HiddenWord hidden_[2];
  LineSplitter splitters_[2];
  BufferingDetector buffering_;
  bool told_buffering_ = false;
  bool losses_told_ = false;  // the page had one in this attempt
  Iteration norms_told_;      // of the last norms that were taken from it
  std::string tail_;
  std::optional<wire::HeartbeatPage> page_;
  RankSample sample_;
  Instant started_, progress_at_, phase_since_;
  std::optional<Iteration> loaded_;  // by a line in front of the first iteration
  int events_told_ = 0;
};

}  // namespace stoker::agent
