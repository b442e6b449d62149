// OutboxStore: what the outbox must not forget, as small files in one folder, so that it survives
// kill -9 on any file system (no database, no locks): one file an accepted alert, written aside,
// synced and renamed before accept() returns; and told.json, which sink has which incident
// when. Done entries stay for a week as a memory of their key. Files are private (0600): sinks'
// options may hold secrets.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alerts/render.hpp"
#include "core/alerts/alert_policy.hpp"

namespace stoker::alerts {

enum class DeliveryState { Waiting, Delivered, Refused, GivenUp };

}  // namespace stoker::alerts

template <>
struct stoker::EnumNames<stoker::alerts::DeliveryState> {
  static constexpr std::array names{"waiting", "delivered", "refused", "given_up"};
};

namespace stoker::alerts {

struct PendingDelivery {
  core::SinkPolicy sink;  // as it was when the alert was accepted
  DeliveryState state = DeliveryState::Waiting;
  std::uint32_t attempts = 0;
  WallTime next;           // not before
  std::string why;         // of the last failure
  std::string instead_of;  // the sink that failed, and why: this is its fallback
  std::string escalated;   // why it goes here besides the routed sinks
  bool held = false;       // a rule holds it back (holding.hpp); `next`: when that is checked
  std::string rule;        // which one
  std::optional<WallTime> until;   // …and how long; empty: until its cause is over
  WallTime ready;                  // its group has waited until then; released: when it was
  std::string group;               // what may go in one message; "" = alone
  std::string thread;              // incident whose message had it first; "" = its own
  std::vector<GroupedAlert> also;  // of its group, in this message
  STOKER_FIELDS(PendingDelivery, sink, state, attempts, next, why, instead_of, escalated, held,
                rule, until, ready, group, thread, also)
};

struct OutboxEntry {
  std::uint64_t number = 0;  // in order of acceptance
  RenderedAlert alert;
  std::vector<PendingDelivery> deliveries;    // empty: all are settled
  std::vector<core::SinkPolicy> others = {};  // not routed; they take over where one fails
  bool fleeting = false;                      // a refresh: never on disk, another follows
  core::AlertRules rules = {};                // where a delivery is held
  STOKER_FIELDS(OutboxEntry, number, alert, deliveries, others, fleeting, rules)
};

struct SentSink {
  WallTime at;
  core::Severity severity = core::Severity::Info;
  std::uint32_t times = 0;
  WallTime first;      // not held any more since
  bool held = false;   // accepted, and never released to this sink
  std::string thread;  // as in PendingDelivery
  STOKER_FIELDS(SentSink, at, severity, times, first, held, thread)
};
struct SentIncident {
  WallTime since;
  std::map<std::string, SentSink> sinks;
  std::map<std::string, std::string> labels;
  STOKER_FIELDS(SentIncident, since, sinks, labels)
};
using Sent = std::map<std::string, SentIncident>;  // by the alert's id

class OutboxStore {
 public:
  explicit OutboxStore(std::string directory) : directory_(std::move(directory)) {}

  // Makes the folder; reads what is there, in order of acceptance. Entries older than a week that
  // are settled are removed; a damaged file is renamed to "<name>.damaged" and reported in
  // `damage`.
  Result<std::vector<OutboxEntry>> load(WallTime now, std::vector<std::string>& damage);
  Status put(const OutboxEntry& entry, bool synced);
  Sent load_sent(std::vector<std::string>& damage);
  Status put_sent(const Sent& sent);

 private:
  [[nodiscard]] std::string path_of(const EffectKey& key) const;
  std::string directory_;
};

}  // namespace stoker::alerts
