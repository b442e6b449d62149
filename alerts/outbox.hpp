// OutboxAlerts: the Alerts port. accept() makes an alert durable and returns; a thread of its own
// delivers it to every routed sink, at least once, also after kill -9: retries with growing pauses
// and jitter, as long as the receiver asks (Retry-After), until it gives up and says so in the
// pulse log. Alerts of one incident reach a sink in order. One incident is not sent twice to a sink
// within the route's `repeat`, unless it became graver; its receivers learn when it is acknowledged
// or resolved. A critical alert that a sink refuses, or does not take for minutes, goes to the
// run's other sinks too. What a rule of holding.hpp holds back is as durable, and leaves when the
// rule says so: with what else of its group has waited.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "alerts/courier.hpp"
#include "alerts/holding.hpp"
#include "alerts/outbox_store.hpp"
#include "alerts/route.hpp"
#include "alerts/sink_health.hpp"
#include "alerts/try_out.hpp"
#include "core/engine/ports.hpp"

namespace stoker::alerts {

// Of this host's time zone.
Duration offset_here(WallTime at);

struct OutboxOptions {
  std::string directory;   // <state>/outbox
  std::string pulse_path;  // <state>/pulse.log
  Duration first_pause = 1s, longest_pause = 15min;
  Duration longest_asked = 1h;  // of a Retry-After
  Duration give_up = std::chrono::hours(24 * 3);
  Duration fall_back = 5min;  // a critical alert waits this long for its own sinks alone
  std::function<WallTime()> now = wall_now;
  Zone zone = offset_here;
};

struct OutboxHealth {
  std::size_t waiting = 0;         // deliveries
  std::optional<WallTime> oldest;  // alert that waits longest
  std::vector<std::string> notes;  // given up, refused, damaged: newest last, at most 32
};

struct HeldAlert {  // what has not left for a sink
  std::string id, sink;
  Hold hold;
};

// What a message says besides its alert: why it goes to a further sink, and the others of its
// group.
void extend_report(RenderedAlert& alert);

// Thread-safe but for test(), which may be called from any one thread.
class OutboxAlerts final : public core::Alerts {
 public:
  // Errors: the folder cannot be made or read. Starts the thread.
  static Result<std::unique_ptr<OutboxAlerts>> open(OutboxOptions options);
  ~OutboxAlerts() override;

  Status accept(const EffectKey& key, const core::SendAlert& alert,
                const core::AlertPolicy& policy) override;

  // Repeats and escalates what stays open: `open` are the alerts of one run that are neither
  // resolved nor silenced, `policy` is that run's. Each goes to the sinks that had it at least
  // `repeat` ago; an acknowledged one only to receivers that forget; one that a silence kept from
  // leaving, to its sinks. To be called several times a minute.
  void repeat_open(const std::vector<core::SendAlert>& open, const core::AlertPolicy& policy);

  // Before it, all alerts that are open, silenced or not: what is no longer open is not held and
  // holds nothing back.
  void note_open(const std::vector<core::SendAlert>& open, const std::set<std::string>& silenced);
  [[nodiscard]] std::vector<HeldAlert> held() const;

  // One alert through every sink of the policy and the pulse log, now, past the outbox. Blocks up
  // to the longest timeout.
  std::vector<SinkTest> test(const core::AlertPolicy& policy);
  // What test() would send; sends nothing.
  [[nodiscard]] std::vector<SinkTest> preview(const core::AlertPolicy& policy) const;

  // True: nothing waits any more (also not for a retry) but what is held back, before `timeout` has
  // passed.
  bool wait_idle(Duration timeout);
  [[nodiscard]] OutboxHealth health() const;
  // Of the policy's sinks those that do not deliver.
  [[nodiscard]] std::vector<SinkTrouble> troubles(const core::AlertPolicy& policy) const;

 private:
  using Slot = std::pair<std::uint64_t, std::size_t>;  // entry number, index of the delivery
  explicit OutboxAlerts(OutboxOptions options);
  Status load();
  Status put_in(const RenderedAlert& alert, const std::vector<Routed>& routed,
                const core::AlertPolicy& policy, const std::string& escalated = {});
  void hold_new(OutboxEntry& entry, PendingDelivery& delivery, const Routed& routed,
                const std::vector<OpenCause>& causes);
  [[nodiscard]] std::vector<OpenCause> causes(const core::AlertRules& rules) const;
  void drop_held(const std::string& id, bool forget, const std::vector<Routed>* only = nullptr);
  [[nodiscard]] bool repeat_waits(const RenderedAlert& alert, const std::string& sink,
                                  const core::AlertPolicy& policy) const;
  void escalate(const core::SendAlert& alert, const core::AlertPolicy& policy);
  [[nodiscard]] bool new_to_all(const core::SendAlert& alert);
  [[nodiscard]] core::SinkPolicy pulse_policy() const;
  [[nodiscard]] std::vector<core::SinkPolicy> all_sinks(const core::AlertPolicy& policy) const;
  void refresh(const RenderedAlert& alert, const core::SinkPolicy& sink);
  void run();
  std::vector<Slot> due(WallTime now, WallTime& next);
  void compose(const Slot& slot);
  void send_composed();
  void settle(const Slot& slot, const Delivery& delivery);
  void release_due(WallTime now, WallTime& next);
  [[nodiscard]] std::optional<Hold> hold_now(const OutboxEntry& entry,
                                             const PendingDelivery& delivery, WallTime ready,
                                             WallTime now) const;
  void release(const Slot& slot, WallTime now);
  void let_go(const Slot& slot, const std::string& thread, WallTime now);
  void store(std::uint64_t number);
  void fall_back(OutboxEntry& entry, std::size_t failed);
  void postpone(OutboxEntry& entry, std::size_t index, const Retry& retry);
  void note(const std::string& text);

  OutboxOptions options_;
  OutboxStore store_;
  Courier courier_;
  mutable std::mutex mutex_;
  std::condition_variable settled_;
  std::map<std::uint64_t, OutboxEntry> entries_;  // with something waiting
  std::set<EffectKey> keys_;                      // of all entries on disk
  Sent sent_;
  std::map<std::string, core::SendAlert> open_;  // at the last note_open
  std::set<std::string> silenced_;
  std::optional<WallTime> open_at_;
  std::map<std::string, WallTime> unheard_;  // open, not accepted: first seen by repeat_open
  std::uint64_t next_number_ = 1;
  Lanes<Request> composed_{[this] { courier_.wake(); }};  // a sink's secrets are files: by its key
  std::map<std::uint64_t, Slot> requests_;  // being composed or under way, by request id
  std::set<Slot> in_flight_;
  std::map<std::string, WallTime> not_before_;  // by key of the sink: its pace, what it asked for
  SinkHealth sinks_;
  std::uint64_t next_request_ = 1;
  std::vector<std::string> notes_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace stoker::alerts
