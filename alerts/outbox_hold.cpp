// Holding back in the outbox: what a rule keeps, when it leaves, and what goes with it.
#include <algorithm>
#include <ctime>
#include <fmt/format.h>

#include "alerts/outbox.hpp"
#include "alerts/sink.hpp"

namespace stoker::alerts {

namespace {
constexpr Duration kLookAgain = 15s;          // at what waits for the end of its cause
constexpr Duration kMayBeUnderWay = 1min;     // from the decision to accept()
constexpr Duration kLongestUnlooked = 10min;  // the clock may be set
}  // namespace

Duration offset_here(WallTime at) {
  const std::time_t seconds =
      std::chrono::floor<std::chrono::seconds>(at.time_since_epoch()).count();
  std::tm local{};
  if (::localtime_r(&seconds, &local) == nullptr) return Duration::zero();
  return std::chrono::seconds(local.tm_gmtoff);
}

// Under the lock. The open alerts that one of the rules may take for a cause, with the sinks that
// have it or will in a moment.
std::vector<OpenCause> OutboxAlerts::causes(const core::AlertRules& rules) const {
  const auto inhibit = rules.inhibit.value_or(built_in_inhibitions());
  const auto may_be = [&](const auto& labels) {
    return std::any_of(inhibit.begin(), inhibit.end(),
                       [&](const auto& rule) { return labels_match(rule.source, labels); });
  };
  std::vector<OpenCause> out;
  for (const auto& [id, sent] : sent_) {
    if (!may_be(sent.labels)) continue;
    if (open_at_ && sent.since <= *open_at_ - kMayBeUnderWay && !open_.contains(id)) continue;
    OpenCause cause{id, sent.labels, {}, silenced_.contains(id)};
    for (const auto& [name, sink] : sent.sinks)
      if (!sink.held) cause.sinks.insert(name);
    for (const auto& [number, entry] : entries_)
      for (const PendingDelivery& delivery : entry.deliveries)
        if (entry.alert.id == id && delivery.held && delivery.rule == kGroupWait)
          cause.sinks.insert(delivery.sink.name);
    out.push_back(std::move(cause));
  }
  for (const std::string& id : silenced_) {
    const auto found = open_.find(id);
    if (sent_.contains(id) || found == open_.end()) continue;
    const RenderedAlert alert = render(EffectKey(id), found->second, {}, {});
    if (may_be(alert.labels)) out.push_back({id, alert.labels, {}, true});
  }
  return out;
}

// Under the lock.
void OutboxAlerts::hold_new(OutboxEntry& entry, PendingDelivery& delivery, const Routed& routed,
                            const std::vector<OpenCause>& open) {
  const auto sent = sent_.find(entry.alert.id);
  if (sent != sent_.end())
    if (const auto before = sent->second.sinks.find(delivery.sink.name);
        before != sent->second.sinks.end())
      delivery.thread = before->second.thread;
  const SinkKind* kind = find_kind(delivery.sink.kind);
  if (kind == nullptr || kind->at_once || entry.alert.kind == kDigestKind) return;
  const WallTime now = entry.alert.at;
  delivery.ready = now + routed.wait;
  const auto hold = hold_of(entry.alert, delivery.sink.name, entry.rules, open,
                            {now, delivery.ready}, options_.zone);
  if (!hold) return;
  delivery.held = true;
  delivery.rule = hold->rule;
  delivery.until = hold->until;
  delivery.group = routed.group;
  delivery.next = hold->until.value_or(now + kLookAgain);
}

// Under the lock. What is held of this incident has no use any more: `forget`: nor has a sink that
// never received it to learn of its end.
void OutboxAlerts::drop_held(const std::string& id, bool forget, const std::vector<Routed>* only) {
  std::vector<std::uint64_t> changed;
  const auto sent = sent_.find(id);
  for (auto& [number, entry] : entries_) {
    if (entry.alert.id != id || entry.alert.resolved) continue;  // an end is still to be sent
    for (PendingDelivery& delivery : entry.deliveries) {
      const std::string& name = delivery.sink.name;
      if (!delivery.held || delivery.state != DeliveryState::Waiting) continue;
      if (only != nullptr &&
          std::none_of(only->begin(), only->end(), [&](const Routed& r) { return r.sink == name; }))
        continue;
      delivery.state = DeliveryState::GivenUp;
      delivery.why = "overtaken while it was held back: " + delivery.rule;
      changed.push_back(number);
      if (!forget || sent == sent_.end()) continue;
      const auto sink = sent->second.sinks.find(name);
      if (sink != sent->second.sinks.end() && sink->second.held) sent->second.sinks.erase(sink);
    }
  }
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  for (const std::uint64_t number : changed) store(number);
}

// Under the lock. A repetition says nothing new: it is left out, not held.
bool OutboxAlerts::repeat_waits(const RenderedAlert& alert, const std::string& sink,
                                const core::AlertPolicy& policy) const {
  const WallTime now = alert.at;
  return hold_of(alert, sink, policy.rules, causes(policy.rules), {now, now}, options_.zone)
      .has_value();
}

// Under the lock. Open, and never accepted: a silence was in force. One whose accept() may be under
// way is left to it.
bool OutboxAlerts::new_to_all(const core::SendAlert& alert) {
  const auto seen = unheard_.try_emplace(alert.id, options_.now()).first->second;
  return options_.now() - seen >= kMayBeUnderWay;
}

// Under the lock.
void OutboxAlerts::escalate(const core::SendAlert& alert, const core::AlertPolicy& policy) {
  if (policy.rules.escalate.empty()) return;
  const SentIncident& sent = sent_.at(alert.id);
  const WallTime now = options_.now();
  std::map<std::string, WallTime> first;
  for (const auto& [name, sink] : sent.sinks)
    if (name != kPulseSink && !sink.held)
      first[name] = sink.first == WallTime{} ? sent.since : sink.first;
  const EffectKey key(fmt::format("{}/escalated-{}", alert.id, first.size()));
  RenderedAlert rendered = render(key, alert, sent.since, now, policy.page);
  rendered.update = true;
  const auto further = escalation_of(rendered, first, policy.rules, now);
  if (!further || keys_.contains(key)) return;
  std::vector<Routed> routed;
  for (const std::string& sink : further->sinks)
    if (!sent.sinks.contains(sink)) routed.push_back({sink, kNoRepeat});
  if (routed.empty()) return;
  if (const auto put = put_in(rendered, routed, policy, further->why); !put)
    return note(put.error().message());
}

void OutboxAlerts::note_open(const std::vector<core::SendAlert>& open,
                             const std::set<std::string>& silenced) {
  {
    const std::lock_guard lock(mutex_);
    std::map<std::string, core::SendAlert> now_open;
    for (const core::SendAlert& alert : open) now_open.emplace(alert.id, alert);
    for (const auto& [id, alert] : open_)
      if (!now_open.contains(id)) drop_held(id, true);  // its end was silenced
    std::erase_if(unheard_, [&](const auto& seen) {
      return !now_open.contains(seen.first) || silenced.contains(seen.first);
    });
    open_ = std::move(now_open);
    silenced_ = silenced;
    open_at_ = options_.now();
  }
  courier_.wake();
}

std::vector<HeldAlert> OutboxAlerts::held() const {
  const std::lock_guard lock(mutex_);
  std::vector<HeldAlert> out;
  for (const auto& [number, entry] : entries_)
    for (const PendingDelivery& delivery : entry.deliveries)
      if (delivery.held && delivery.state == DeliveryState::Waiting)
        out.push_back({entry.alert.id, delivery.sink.name, {delivery.rule, delivery.until}});
  return out;
}

// Under the lock. `ready`: as if its group had waited until then.
std::optional<Hold> OutboxAlerts::hold_now(const OutboxEntry& entry,
                                           const PendingDelivery& delivery, WallTime ready,
                                           WallTime now) const {
  if (silenced_.contains(entry.alert.id)) return Hold{"a silence", {}};
  return hold_of(entry.alert, delivery.sink.name, entry.rules, causes(entry.rules), {now, ready},
                 options_.zone);
}

// Under the lock. Looks at what is held and whose time has come.
void OutboxAlerts::release_due(WallTime now, WallTime& next) {
  std::vector<Slot> free;
  for (auto& [number, entry] : entries_)
    for (std::size_t i = 0; i < entry.deliveries.size(); ++i) {
      PendingDelivery& delivery = entry.deliveries[i];
      if (!delivery.held || delivery.state != DeliveryState::Waiting) continue;
      if (!delivery.until) delivery.next = std::min(delivery.next, now + kLongestUnlooked);
      if (delivery.next <= now) {
        const auto hold = hold_now(entry, delivery, delivery.ready, now);
        if (!hold) {
          free.emplace_back(number, i);
          continue;
        }
        delivery.rule = hold->rule;
        delivery.until = hold->until;
        delivery.next = hold->until.value_or(now + kLookAgain);
      }
      next = std::min(next, delivery.next);
    }
  for (const Slot& slot : free) {
    const auto entry = entries_.find(slot.first);
    if (entry != entries_.end() && entry->second.deliveries.size() > slot.second &&
        entry->second.deliveries[slot.second].held)
      release(slot, now);
  }
}

// Under the lock. Its message leaves with all of its group that nothing else holds, the gravest
// first.
void OutboxAlerts::release(const Slot& slot, WallTime now) {
  const PendingDelivery& asked = entries_.at(slot.first).deliveries.at(slot.second);
  const SinkKind* kind = find_kind(asked.sink.kind);
  std::vector<Slot> together{slot};
  const std::string status = status_of(entries_.at(slot.first).alert);
  if (!asked.group.empty() && kind != nullptr && !kind->single)
    for (const auto& [number, entry] : entries_)
      for (std::size_t i = 0; i < entry.deliveries.size(); ++i) {
        const PendingDelivery& other = entry.deliveries[i];
        if (Slot(number, i) != slot && other.held && other.state == DeliveryState::Waiting &&
            other.sink.name == asked.sink.name && other.group == asked.group &&
            status_of(entry.alert) == status && !hold_now(entry, other, now, now))
          together.emplace_back(number, i);
      }
  std::sort(together.begin(), together.end());
  const Slot first =
      *std::max_element(together.begin(), together.end(), [this](const Slot& a, const Slot& b) {
        return entries_.at(a.first).alert.severity < entries_.at(b.first).alert.severity;
      });
  const std::string thread = entries_.at(first.first).alert.id;
  for (const Slot& other : together) {
    const RenderedAlert& alert = entries_.at(other.first).alert;
    if (other != first)
      entries_.at(first.first)
          .deliveries.at(first.second)
          .also.push_back(
              {alert.id, title_of(alert), alert.kind, alert.reason, alert.labels, alert.since});
  }
  let_go(first, "", now);
  for (const Slot& other : together)
    if (other != first) let_go(other, thread, now);
  if (const auto written = store_.put_sent(sent_); !written) note(written.error().message());
}

// Under the lock. `thread`: the incident in whose message it is; "" = its own leaves.
void OutboxAlerts::let_go(const Slot& slot, const std::string& thread, WallTime now) {
  OutboxEntry& entry = entries_.at(slot.first);
  PendingDelivery& delivery = entry.deliveries.at(slot.second);
  delivery.held = false;
  delivery.ready = delivery.next = now;
  if (!thread.empty()) delivery.state = DeliveryState::Delivered;
  if (const auto sent = sent_.find(entry.alert.id); sent != sent_.end()) {
    SentSink& sink = sent->second.sinks[delivery.sink.name];
    sink.held = false;
    sink.at = now;
    if (sink.first == WallTime{}) sink.first = now;
    if (!thread.empty() && sink.thread.empty()) sink.thread = thread;
  }
  store(slot.first);
}

}  // namespace stoker::alerts
