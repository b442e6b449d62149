// Pulse: the training's side of the heartbeat page. Without a page (started by hand) everything
// here does nothing. Also the Comm that notes each collective in the page's ring.
#pragma once

#include <optional>

#include "wire/heartbeat_page.hpp"
#include "worker/train/comm/comm.hpp"

namespace stoker::train {

class Pulse {
 public:
  Pulse() = default;
  // A page that cannot be opened is told and then missed: the training goes on without it.
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

 private:
  void write();

  std::optional<wire::HeartbeatPage> page_;
  wire::Heartbeat beat_;
};

class TracedComm final : public Comm {
 public:
  TracedComm(Comm& inner, Pulse& pulse) : inner_(inner), pulse_(pulse) {}
  [[nodiscard]] const Mesh& mesh() const override { return inner_.mesh(); }
  [[nodiscard]] std::uint32_t rank() const override { return inner_.rank(); }
  Status all_reduce(Axis axis, Buffer buffer, const Call& call) override;
  Status all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                    const Call& call) override;

 private:
  Comm& inner_;
  Pulse& pulse_;
};

}  // namespace stoker::train
