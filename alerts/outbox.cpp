// Accepting and forgetting on the caller's thread, delivering on the outbox's own.
#include "alerts/outbox.hpp"

#include <algorithm>

#include "common/hash.hpp"
#include "common/os/files.hpp"

namespace stoker::alerts {

namespace {
constexpr std::size_t kMostWaiting = 10'000;
constexpr std::size_t kMostRequests = 64;  // at a time
constexpr std::size_t kMostOfOneSink = 4;  // of these: a sink that hangs leaves room for others
constexpr std::size_t kMostNotes = 32;
constexpr Duration kLongestSleep = 60s;
constexpr Duration kToldRemembered = std::chrono::hours(24 * 30);

// A share in [0.8, 1.2), the same for the same attempt.
double jitter(const std::string& seed) {
  return 0.8 + 0.4 * static_cast<double>(xxh3_64(seed) % 1000) / 1000;
}
}  // namespace

OutboxAlerts::OutboxAlerts(OutboxOptions options)
    : options_(std::move(options)), store_(options_.directory) {}

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
  sender_.wake();
  if (thread_.joinable()) thread_.join();
}

Status OutboxAlerts::load() {
  const WallTime now = wall_now();
  STOKER_TRY(entries, store_.load(now, notes_));
  told_ = store_.load_told(notes_);
  std::erase_if(told_, [now](const auto& incident) {
    return std::all_of(incident.second.sinks.begin(), incident.second.sinks.end(),
                       [now](const auto& sink) { return now - sink.second.at > kToldRemembered; });
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
    const WallTime now = wall_now();
    const auto told = told_.find(alert.id);
    const WallTime since = told == told_.end() ? now : told->second.since;
    const RenderedAlert rendered = render(key, alert, since, now);
    std::vector<Routed> routed = route(rendered, policy);
    if (told != told_.end()) {
      std::erase_if(routed, [&](const Routed& sink) {
        if (sink.sink == kPulseSink) return false;
        const auto before = told->second.sinks.find(sink.sink);
        if (alert.resolved) return before == told->second.sinks.end();
        return before != told->second.sinks.end() && alert.severity <= before->second.severity &&
               now - before->second.at < sink.repeat;
      });
    }
    STOKER_TRY_STATUS(put_in(rendered, routed, policy));
  }
  sender_.wake();
  return ok();
}

// Under the lock. The entry first, then who was told: dying in between repeats, never forgets.
Status OutboxAlerts::put_in(const RenderedAlert& alert, const std::vector<Routed>& routed,
                            const core::AlertPolicy& policy) {
  if (entries_.size() >= kMostWaiting)
    return fail("the outbox holds " + std::to_string(kMostWaiting) + " undelivered alerts",
                options_.directory, "mend the sinks (stoker alerts test) or remove them");
  OutboxEntry entry{next_number_, alert, {}};
  for (const auto& sink : routed) {
    PendingDelivery delivery;
    delivery.next = alert.at;
    if (sink.sink == kPulseSink) {
      delivery.sink = pulse_policy();
    } else {
      const auto found = std::find_if(policy.sinks.begin(), policy.sinks.end(),
                                      [&](const auto& s) { return s.name == sink.sink; });
      if (found == policy.sinks.end()) continue;  // refused when the configuration was checked
      delivery.sink = *found;
    }
    entry.deliveries.push_back(std::move(delivery));
  }
  STOKER_TRY_STATUS(store_.put(entry, true));
  ++next_number_;
  keys_.insert(alert.key);
  if (alert.resolved) {
    told_.erase(alert.id);
  } else {
    ToldIncident& incident = told_[alert.id];
    incident.since = alert.since;
    for (const auto& delivery : entry.deliveries) {
      ToldSink& sink = incident.sinks[delivery.sink.name];
      sink = {alert.at, alert.severity, sink.times + 1};
    }
  }
  if (const auto written = store_.put_told(told_); !written) note(written.error().message());
  entries_.emplace(entry.number, std::move(entry));
  return ok();
}

void OutboxAlerts::repeat_open(const std::vector<core::SendAlert>& open,
                               const core::AlertPolicy& policy) {
  {
    const std::lock_guard lock(mutex_);
    const WallTime now = wall_now();
    for (const auto& alert : open) {
      const auto told = told_.find(alert.id);
      if (told == told_.end() || alert.resolved) continue;
      std::uint32_t times = 0;
      for (const auto& [name, sink] : told->second.sinks) times += sink.times;
      const EffectKey key(alert.id + "/again-" + std::to_string(times));
      const RenderedAlert rendered = render(key, alert, told->second.since, now);
      std::vector<Routed> routed = route(rendered, policy);
      std::erase_if(routed, [&](const Routed& sink) {
        if (sink.repeat == kNoRepeat) return true;
        const auto before = told->second.sinks.find(sink.sink);
        return before != told->second.sinks.end() && now - before->second.at < sink.repeat;
      });
      if (routed.empty() || keys_.contains(key)) continue;
      if (const auto put = put_in(rendered, routed, policy); !put) note(put.error().message());
    }
  }
  sender_.wake();
}

void OutboxAlerts::run() {
  while (true) {
    WallTime next = wall_now() + kLongestSleep;
    std::vector<Slot> slots;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      slots = due(wall_now(), next);
    }
    for (const Slot& slot : slots) attempt(slot);
    const Duration pause = slots.empty() ? next - wall_now() : Duration::zero();
    for (auto& [id, answer] : sender_.wait(std::max(pause, Duration::zero()))) {
      const Slot slot = requests_.at(id);
      requests_.erase(id);
      Delivery delivery = Retry{"its sink is gone", {}};
      {
        const std::lock_guard lock(mutex_);
        const auto sink = make_sink(entries_.at(slot.first).deliveries.at(slot.second).sink);
        if (sink) delivery = (*sink)->judge(answer);
      }
      settle(slot, delivery);
    }
  }
}

// Deliveries whose time has come; of one incident only the first that waits for a sink. `next`:
// when the next one's time comes.
std::vector<OutboxAlerts::Slot> OutboxAlerts::due(WallTime now, WallTime& next) {
  std::vector<Slot> slots;
  std::set<std::pair<std::string, std::string>> blocked;  // sink, incident
  std::map<std::string, std::size_t> busy;                // requests under way, by sink
  for (const auto& [number, index] : in_flight_)
    ++busy[entries_.at(number).deliveries.at(index).sink.name];
  for (auto& [number, entry] : entries_) {
    for (std::size_t i = 0; i < entry.deliveries.size(); ++i) {
      PendingDelivery& delivery = entry.deliveries[i];
      if (delivery.state != DeliveryState::Waiting) continue;
      const bool first = blocked.insert({delivery.sink.name, entry.alert.id}).second;
      const Slot slot{number, i};
      if (!first || in_flight_.contains(slot)) continue;
      // A wall clock that was set back must not stop deliveries.
      delivery.next = std::min(delivery.next,
                               now + std::max(options_.longest_pause * 2, options_.longest_asked));
      std::size_t& of_sink = busy[delivery.sink.name];
      if (delivery.next > now) {
        next = std::min(next, delivery.next);
      } else if (in_flight_.size() < kMostRequests && of_sink < kMostOfOneSink) {
        in_flight_.insert(slot);
        slots.push_back(slot);
        ++of_sink;
      }
    }
  }
  return slots;
}

void OutboxAlerts::attempt(const Slot& slot) {
  RenderedAlert alert;
  core::SinkPolicy policy;
  {
    const std::lock_guard lock(mutex_);
    alert = entries_.at(slot.first).alert;
    policy = entries_.at(slot.first).deliveries.at(slot.second).sink;
  }
  auto sink = make_sink(policy);
  if (!sink) return settle(slot, Retry{sink.error().message(), {}});
  auto outcome = (*sink)->deliver(alert);
  if (const auto* delivery = std::get_if<Delivery>(&outcome)) return settle(slot, *delivery);
  requests_[next_request_] = slot;
  sender_.start(next_request_++, std::get<HttpRequest>(outcome));
}

void OutboxAlerts::settle(const Slot& slot, const Delivery& outcome) {
  const std::lock_guard lock(mutex_);
  in_flight_.erase(slot);
  OutboxEntry& entry = entries_.at(slot.first);
  PendingDelivery& delivery = entry.deliveries.at(slot.second);
  ++delivery.attempts;
  if (std::holds_alternative<Delivered>(outcome)) {
    delivery.state = DeliveryState::Delivered;
  } else if (const auto* refused = std::get_if<Refused>(&outcome)) {
    delivery.state = DeliveryState::Refused;
    delivery.why = refused->why;
    note("sink " + delivery.sink.name + " refused alert " + entry.alert.id + ": " + refused->why);
  } else {
    postpone(delivery, entry.alert, std::get<Retry>(outcome));
  }
  const bool waits = std::any_of(entry.deliveries.begin(), entry.deliveries.end(),
                                 [](const auto& d) { return d.state == DeliveryState::Waiting; });
  if (!waits) entry.deliveries.clear();
  if (const auto written = store_.put(entry, false); !written) note(written.error().message());
  if (!waits) {
    entries_.erase(slot.first);
    settled_.notify_all();
  }
}

void OutboxAlerts::postpone(PendingDelivery& delivery, const RenderedAlert& alert,
                            const Retry& retry) {
  const WallTime now = wall_now();
  delivery.why = retry.why;
  if (now - alert.at > options_.give_up) {
    delivery.state = DeliveryState::GivenUp;
    return note("gave up on alert " + alert.id + " for sink " + delivery.sink.name + " after " +
                std::to_string(delivery.attempts) + " attempts in " +
                format_duration(now - alert.at) + ": " + retry.why);
  }
  Duration pause = options_.first_pause;
  for (std::uint32_t i = 1; i < delivery.attempts && pause < options_.longest_pause; ++i)
    pause *= 2;
  pause = std::min(pause, options_.longest_pause);
  const double share =
      jitter(alert.key.text + delivery.sink.name + std::to_string(delivery.attempts));
  pause = from_seconds(to_seconds(pause) * share);
  if (retry.after) pause = std::clamp(*retry.after, pause, options_.longest_asked);
  delivery.next = now + pause;
}

// Under the lock.
void OutboxAlerts::note(const std::string& text) {
  notes_.push_back(text);
  if (notes_.size() > kMostNotes) notes_.erase(notes_.begin());
  // Where the pulse log cannot be written either, health() still tells.
  (void)os::append_file(options_.pulse_path, pulse_line(wall_now(), "alerts: " + text),
                        os::Durability::Cached);
}

std::vector<SinkTest> OutboxAlerts::test(const core::AlertPolicy& policy) {
  core::SendAlert alert;
  alert.id = "test/" + std::to_string(wall_now().time_since_epoch().count());
  alert.severity = core::Severity::Info;
  alert.alert_kind = "test";
  alert.summary = "a test alert of stoker: nothing has happened";
  alert.reason = "somebody ran `stoker alerts test`";
  const RenderedAlert rendered = render(EffectKey(alert.id), alert, wall_now(), wall_now());
  std::vector<core::SinkPolicy> sinks = policy.sinks;
  sinks.insert(sinks.begin(), pulse_policy());
  HttpSender sender;
  std::vector<SinkTest> results(sinks.size());
  std::map<std::uint64_t, std::unique_ptr<Sink>> asked;
  const auto tell = [&results](std::size_t at, const Delivery& outcome) {
    if (const auto* retry = std::get_if<Retry>(&outcome)) results[at].detail = retry->why;
    if (const auto* refused = std::get_if<Refused>(&outcome)) results[at].detail = refused->why;
    results[at].ok = std::holds_alternative<Delivered>(outcome);
    if (results[at].ok) results[at].detail = "delivered";
  };
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    results[i].sink = sinks[i].name;
    auto sink = make_sink(sinks[i]);
    if (!sink) {
      tell(i, Refused{sink.error().message()});
      continue;
    }
    auto outcome = (*sink)->deliver(rendered);
    if (const auto* delivery = std::get_if<Delivery>(&outcome)) {
      tell(i, *delivery);
      continue;
    }
    asked[i] = std::move(*sink);
    sender.start(i, std::get<HttpRequest>(outcome));
  }
  while (sender.under_way() > 0)
    for (const auto& [id, answer] : sender.wait(1s)) tell(id, asked.at(id)->judge(answer));
  return results;
}

bool OutboxAlerts::wait_idle(Duration timeout) {
  std::unique_lock lock(mutex_);
  return settled_.wait_for(lock, timeout, [this] { return entries_.empty(); });
}

OutboxHealth OutboxAlerts::health() const {
  const std::lock_guard lock(mutex_);
  OutboxHealth health;
  for (const auto& [number, entry] : entries_) {
    for (const auto& delivery : entry.deliveries)
      if (delivery.state == DeliveryState::Waiting) ++health.waiting;
    if (!health.oldest) health.oldest = entry.alert.at;
  }
  health.notes = notes_;
  return health;
}

}  // namespace stoker::alerts
