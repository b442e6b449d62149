// Pulse: the training's side of the heartbeat page. Without a page (started by hand) everything
// here does nothing. Also the Comm that notes each call in the page's ring,
// and those that several ranks make together in the trace.
#pragma once

#include <optional>

#include "wire/heartbeat_page.hpp"
#include "worker/train/comm/comm.hpp"
#include "worker/train/run/trace.hpp"

namespace stoker::train {

class Pulse {
 public:
  Pulse() = default;
  // A page that cannot be opened is reported and then missing: the training goes on without it.
  static Pulse open(const std::optional<std::string>& path, Attempt attempt);

  void phase(wire::Phase phase);
  void progress();  // a micro-batch, an evaluation batch, a file loaded
  void saved(Iteration iteration);
  void answer_saves();  // all that have been asked so far
  // Changes the numbers of the page, then writes it.
  template <class F>
  void update(F change) {
    change(beat_);
    progress();
  }
  [[nodiscard]] bool save_wanted() const;
  [[nodiscard]] wire::Leave leave() const;

  std::uint64_t enter_collective(const std::string& name, std::uint64_t bytes);
  void leave_collective(std::uint64_t number);
  // A call of the network: how long it took, and whether it failed.
  void note_call(Duration took, bool failed);
  [[nodiscard]] Duration in_calls() const { return in_calls_; }  // all of them so far
  [[nodiscard]] bool peer_lost() const { return peer_lost_; }    // a call failed

 private:
  void write();

  std::optional<wire::HeartbeatPage> page_;
  wire::Heartbeat beat_;
  Duration in_calls_{};
  bool peer_lost_ = false;
};

class TracedComm final : public Comm {
 public:
  TracedComm(Comm& inner, Pulse& pulse, Trace& trace)
      : inner_(inner), pulse_(pulse), trace_(trace) {}
  [[nodiscard]] const Mesh& mesh() const override { return inner_.mesh(); }
  [[nodiscard]] std::uint32_t rank() const override { return inner_.rank(); }
  Status all_reduce(Axis axis, Reduce how, Buffer buffer, const Call& call) override;
  Status all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                    const Call& call) override;
  Status reduce_scatter(Axis axis, Buffer all, void* mine, const Call& call) override;
  Status send(std::uint32_t to, const void* data, std::size_t bytes, const Call& call) override;
  Status receive(std::uint32_t from, void* data, std::size_t bytes, const Call& call) override;

 private:
  template <class F>
  Status traced(const Call& call, std::size_t bytes, F f);

  Comm& inner_;
  Pulse& pulse_;
  Trace& trace_;
};

}  // namespace stoker::train
