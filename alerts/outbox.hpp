// OutboxAlerts: the Alerts port. accept() makes an alert durable and returns; a thread of its own
// delivers it to every routed sink, at least once, also after kill -9: retries with growing pauses
// and jitter, as long as the receiver asks (Retry-After), until it gives up and says so in the
// pulse log. Alerts of one incident reach a sink in order. One incident is not told twice to a sink
// within the route's `repeat`, unless it became graver; resolved ones go to whom it was told.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "alerts/http_sender.hpp"
#include "alerts/outbox_store.hpp"
#include "alerts/route.hpp"
#include "core/ports.hpp"

namespace stoker::alerts {

struct OutboxOptions {
  std::string directory;   // <state>/outbox
  std::string pulse_path;  // <state>/pulse.log
  Duration first_pause = 1s, longest_pause = 15min;
  Duration longest_asked = 1h;  // of a Retry-After
  Duration give_up = std::chrono::hours(24 * 3);
};

struct OutboxHealth {
  std::size_t waiting = 0;         // deliveries
  std::optional<WallTime> oldest;  // alert that waits longest
  std::vector<std::string> notes;  // given up, refused, damaged: newest last, at most 32
};

struct SinkTest {
  std::string sink;
  bool ok = false;
  std::string detail;
};

// Thread-safe but for test(), which may be called from any one thread.
class OutboxAlerts final : public core::Alerts {
 public:
  // Errors: the folder cannot be made or read. Starts the thread.
  static Result<std::unique_ptr<OutboxAlerts>> open(OutboxOptions options);
  ~OutboxAlerts() override;

  Status accept(const EffectKey& key, const core::SendAlert& alert,
                const core::AlertPolicy& policy) override;

  // Tells again what stays open: `open` are the alerts of one run that are neither resolved,
  // acknowledged nor silenced, `policy` is that run's. Each goes to the sinks that were told at
  // least `repeat` ago. To be called now and then (a minute is fine).
  void repeat_open(const std::vector<core::SendAlert>& open, const core::AlertPolicy& policy);

  // One alert through every sink of the policy and the pulse log, now, past the outbox. Blocks up
  // to the longest timeout.
  std::vector<SinkTest> test(const core::AlertPolicy& policy);

  // True: nothing waits any more (also not for a retry) before `timeout` has passed.
  bool wait_idle(Duration timeout);
  [[nodiscard]] OutboxHealth health() const;

 private:
  using Slot = std::pair<std::uint64_t, std::size_t>;  // entry number, index of the delivery
  explicit OutboxAlerts(OutboxOptions options);
  Status load();
  Status put_in(const RenderedAlert& alert, const std::vector<Routed>& routed,
                const core::AlertPolicy& policy);
  [[nodiscard]] core::SinkPolicy pulse_policy() const;
  void run();
  std::vector<Slot> due(WallTime now, WallTime& next);
  void attempt(const Slot& slot);
  void settle(const Slot& slot, const Delivery& delivery);
  void postpone(PendingDelivery& delivery, const RenderedAlert& alert, const Retry& retry);
  void note(const std::string& text);

  OutboxOptions options_;
  OutboxStore store_;
  HttpSender sender_;
  mutable std::mutex mutex_;
  std::condition_variable settled_;
  std::map<std::uint64_t, OutboxEntry> entries_;  // with something waiting
  std::set<EffectKey> keys_;                      // of all entries on disk
  Told told_;
  std::uint64_t next_number_ = 1;
  std::map<std::uint64_t, Slot> requests_;  // under way, by request id
  std::set<Slot> in_flight_;
  std::uint64_t next_request_ = 1;
  std::vector<std::string> notes_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace stoker::alerts
