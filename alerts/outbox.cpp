// Accepting and forgetting, on the caller's thread; outbox_deliver.cpp is the outbox's own.
#include "alerts/outbox.hpp"

#include <algorithm>

#include "common/os/files.hpp"

namespace stoker::alerts {

namespace {
constexpr std::size_t kMostWaiting = 10'000;
constexpr Duration kSentRemembered = std::chrono::hours(24 * 30);
}  // namespace

OutboxAlerts::OutboxAlerts(OutboxOptions options)
    : options_(std::move(options)),
      store_(options_.directory),
      sinks_(options_.directory + "/sinks.json") {}

Result<std::unique_ptr<OutboxAlerts>> OutboxAlerts::open(OutboxOptions options) {
  std::unique_ptr<OutboxAlerts> outbox(new OutboxAlerts(std::move(options)));
  STOKER_TRY_STATUS(outbox->load());
  outbox->thread_ = std::thread([self = outbox.get()] { self->run(); });
  return outbox;
}

OutboxAlerts::~OutboxAlerts() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  courier_.wake();
  if (thread_.joinable()) thread_.join();
}

Status OutboxAlerts::load() {
  const WallTime now = options_.now();
  STOKER_TRY(entries, store_.load(now, notes_));
  sent_ = store_.load_sent(notes_);
  if (const auto read = sinks_.load(); !read) notes_.push_back(read.error().message());
  std::erase_if(sent_, [now](const auto& incident) {
    return std::all_of(incident.second.sinks.begin(), incident.second.sinks.end(),
                       [now](const auto& sink) { return now - sink.second.at > kSentRemembered; });
  });
  for (auto& entry : entries) {
    keys_.insert(entry.alert.key);
    next_number_ = std::max(next_number_, entry.number + 1);
    if (!entry.deliveries.empty()) entries_.emplace(entry.number, std::move(entry));
  }
  return ok();
}

core::SinkPolicy OutboxAlerts::pulse_policy() const {
  return {kPulseSink, "pulse", {{"path", options_.pulse_path}}};
}

Status OutboxAlerts::accept(const EffectKey& key, const core::SendAlert& alert,
                            const core::AlertPolicy& policy) {
  {
    const std::lock_guard lock(mutex_);
    if (keys_.contains(key)) return ok();
    const WallTime now = options_.now();
    RenderedAlert rendered = render(key, alert, now, now, policy.page);
    const std::string status = status_of(rendered);
    if (status != "firing") drop_held(alert.id, rendered.resolved);
    const auto sent = sent_.find(alert.id);
    if (sent != sent_.end()) rendered.since = sent->second.since;
    rendered.update = sent != sent_.end();
    std::vector<Routed> routed = route(rendered, policy);
    if (sent != sent_.end()) {
      const std::vector<Routed> all = routed;
      const bool for_all = status != "firing";
      std::erase_if(routed, [&](const Routed& sink) {
        const auto before = sent->second.sinks.find(sink.sink);
        if (sink.sink == kPulseSink) return false;
        if (for_all) return true;  // the sinks that had it are informed, routed or not
        return before != sent->second.sinks.end() && alert.severity <= before->second.severity &&
               now - before->second.at < sink.repeat;
      });
      for (const auto& [name, sink] : sent->second.sinks) {
        if (!for_all || name == kPulseSink) continue;
        const auto known = std::find_if(all.begin(), all.end(),
                                        [&name = name](const Routed& r) { return r.sink == name; });
        routed.push_back(known == all.end() ? Routed{name} : *known);
      }
      if (!for_all && routed.size() > 1) drop_held(alert.id, false, &routed);
    }
    STOKER_TRY_STATUS(put_in(rendered, routed, policy));
    unheard_.erase(alert.id);
  }
  courier_.wake();
  return ok();
}

// Under the lock. The entry first, then the sinks that have it: dying in between repeats, never
// forgets.
Status OutboxAlerts::put_in(const RenderedAlert& alert, const std::vector<Routed>& routed,
                            const core::AlertPolicy& policy, const std::string& escalated) {
  if (entries_.size() >= kMostWaiting)
    return fail("the outbox holds " + std::to_string(kMostWaiting) + " undelivered alerts",
                options_.directory, "fix the sinks (stoker alerts test) or remove them");
  OutboxEntry entry{next_number_, alert, {}};
  entry.rules = policy.rules;
  const std::vector<OpenCause> open = causes(entry.rules);
  for (const core::SinkPolicy& sink : policy.sinks)
    if (std::none_of(routed.begin(), routed.end(),
                     [&](const Routed& r) { return r.sink == sink.name; }))
      entry.others.push_back(sink);
  for (const auto& sink : routed) {
    PendingDelivery delivery;
    delivery.next = alert.at;
    delivery.escalated = escalated;
    if (sink.sink == kPulseSink) {
      delivery.sink = pulse_policy();
    } else {
      const auto found = std::find_if(policy.sinks.begin(), policy.sinks.end(),
                                      [&](const auto& s) { return s.name == sink.sink; });
      if (found == policy.sinks.end()) continue;  // refused when the configuration was checked
      delivery.sink = *found;
    }
    hold_new(entry, delivery, sink, open);
    entry.deliveries.push_back(std::move(delivery));
  }
  if (std::none_of(entry.deliveries.begin(), entry.deliveries.end(),
                   [](const auto& d) { return d.held; }))
    entry.rules = {};
  STOKER_TRY_STATUS(store_.put(entry, true));
  ++next_number_;
  keys_.insert(alert.key);
  if (alert.resolved) {
    sent_.erase(alert.id);
  } else {
    SentIncident& incident = sent_[alert.id];
    incident.since = alert.since;
    incident.labels = alert.labels;
    for (const auto& delivery : entry.deliveries) {
      SentSink& sink = incident.sinks[delivery.sink.name];
      sink.held = delivery.held && (sink.held || sink.times == 0);
      if (!delivery.held && sink.first == WallTime{}) sink.first = alert.at;
      sink.at = alert.at;
      sink.severity = alert.severity;
      ++sink.times;
    }
  }
  if (const auto written = store_.put_sent(sent_); !written) note(written.error().message());
  entries_.emplace(entry.number, std::move(entry));
  return ok();
}

// Under the lock. What a receiver would forget: not on disk, because another refresh follows; not
// while an earlier delivery waits, which says the same.
void OutboxAlerts::refresh(const RenderedAlert& alert, const core::SinkPolicy& sink) {
  for (const auto& [number, entry] : entries_)
    for (const auto& delivery : entry.deliveries)
      if (entry.alert.id == alert.id && delivery.sink.name == sink.name &&
          delivery.state == DeliveryState::Waiting)
        return;
  OutboxEntry entry{next_number_++, alert, {}};
  entry.fleeting = true;
  PendingDelivery delivery;
  delivery.sink = sink;
  delivery.next = alert.at;
  entry.deliveries.push_back(std::move(delivery));
  sent_[alert.id].sinks[sink.name].at = alert.at;
  entries_.emplace(entry.number, std::move(entry));
}

void OutboxAlerts::repeat_open(const std::vector<core::SendAlert>& open,
                               const core::AlertPolicy& policy) {
  {
    const std::lock_guard lock(mutex_);
    const WallTime now = options_.now();
    for (const auto& alert : open) {
      if (alert.resolved) continue;
      const auto sent = sent_.find(alert.id);
      if (sent == sent_.end()) {
        if (!new_to_all(alert)) continue;
        const EffectKey key(alert.id + "/after-silence");
        const RenderedAlert rendered = render(key, alert, now, now, policy.page);
        if (keys_.contains(key)) continue;
        if (const auto put = put_in(rendered, route(rendered, policy), policy); !put)
          note(put.error().message());
        continue;
      }
      escalate(alert, policy);
      std::uint32_t times = 0;
      for (const auto& [name, sink] : sent->second.sinks) times += sink.times;
      const EffectKey key(alert.id + "/again-" + std::to_string(times));
      RenderedAlert rendered = render(key, alert, sent->second.since, now, policy.page);
      rendered.update = rendered.repeated = true;
      std::vector<Routed> routed = route(rendered, policy);
      std::erase_if(routed, [&](const Routed& sink) {
        if (sink.repeat == kNoRepeat) return true;
        const auto before = sent->second.sinks.find(sink.sink);
        const bool heard = before != sent->second.sinks.end();
        const auto found = std::find_if(policy.sinks.begin(), policy.sinks.end(),
                                        [&](const auto& s) { return s.name == sink.sink; });
        const SinkKind* kind = found == policy.sinks.end() ? nullptr : find_kind(found->kind);
        if (kind != nullptr && kind->refresh > Duration::zero()) {
          if (heard && now - before->second.at >= std::min(sink.repeat, kind->refresh))
            refresh(rendered, *found);
          return heard;
        }
        if (!rendered.acknowledged_by.empty()) return true;
        if (heard && (before->second.held || repeat_waits(rendered, sink.sink, policy)))
          return true;
        return heard && now - before->second.at < sink.repeat;
      });
      if (routed.empty() || keys_.contains(key)) continue;
      if (const auto put = put_in(rendered, routed, policy); !put) note(put.error().message());
    }
  }
  courier_.wake();
}

std::vector<core::SinkPolicy> OutboxAlerts::all_sinks(const core::AlertPolicy& policy) const {
  std::vector<core::SinkPolicy> sinks = policy.sinks;
  sinks.insert(sinks.begin(), pulse_policy());
  return sinks;
}

std::vector<SinkTest> OutboxAlerts::test(const core::AlertPolicy& policy) {
  const auto sinks = all_sinks(policy);
  auto results = try_sinks(sinks);
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < sinks.size(); ++i)
    if (results[i].ok)
      sinks_.worked(sinks[i]);
    else
      sinks_.failed(sinks[i], results[i].detail, wall_now());
  return results;
}

std::vector<SinkTest> OutboxAlerts::preview(const core::AlertPolicy& policy) const {
  return show_requests(all_sinks(policy));
}

std::vector<SinkTrouble> OutboxAlerts::troubles(const core::AlertPolicy& policy) const {
  const std::lock_guard lock(mutex_);
  return sinks_.troubles(all_sinks(policy));
}

bool OutboxAlerts::wait_idle(Duration timeout) {
  std::unique_lock lock(mutex_);
  return settled_.wait_for(lock, timeout, [this] {
    return std::none_of(entries_.begin(), entries_.end(), [](const auto& entry) {
      return std::any_of(
          entry.second.deliveries.begin(), entry.second.deliveries.end(),
          [](const auto& d) { return d.state == DeliveryState::Waiting && !d.held; });
    });
  });
}

OutboxHealth OutboxAlerts::health() const {
  const std::lock_guard lock(mutex_);
  OutboxHealth health;
  for (const auto& [number, entry] : entries_) {
    for (const auto& delivery : entry.deliveries)
      if (delivery.state == DeliveryState::Waiting && !delivery.held) {
        ++health.waiting;
        if (!health.oldest) health.oldest = entry.alert.at;
      }
  }
  health.notes = notes_;
  return health;
}

}  // namespace stoker::alerts
