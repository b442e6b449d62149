// Delivering: what is due, its attempts, retries and fallbacks, on the outbox's own thread.
#include <algorithm>
#include <utility>

#include "alerts/outbox.hpp"
#include "common/hash.hpp"
#include "common/os/files.hpp"

namespace stoker::alerts {

namespace {
constexpr std::size_t kMostRequests = 64;  // at a time
constexpr std::size_t kMostOfOneSink = 4;  // of these: a sink that hangs leaves room for others
constexpr std::size_t kMostNotes = 32;
constexpr Duration kLongestSleep = 60s;
constexpr Duration kComposeLimit = 10s;

// A share in [0.8, 1.2), the same for the same attempt.
double jitter(const std::string& seed) {
  return 0.8 + 0.4 * static_cast<double>(xxh3_64(seed) % 1000) / 1000;
}
}  // namespace

void extend_report(RenderedAlert& alert) {
  constexpr std::size_t kShown = 20;
  if (!alert.escalated.empty())
    alert.report = "Escalated: " + alert.escalated + "\n" + alert.report;
  if (alert.also.empty()) return;
  alert.report += "In the same message:\n";
  for (std::size_t i = 0; i < alert.also.size() && i < kShown; ++i)
    alert.report += "- " + alert.also[i].title + " (since " + format_rfc3339(alert.also[i].since) +
                    ", " + alert.also[i].id + ")\n";
  if (alert.also.size() > kShown)
    alert.report += "and " + std::to_string(alert.also.size() - kShown) + " more: stoker alerts\n";
}

void OutboxAlerts::run() {
  while (true) {
    WallTime next = options_.now() + kLongestSleep;
    std::vector<Slot> slots;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      const WallTime now = options_.now();  // of both: what is held at that moment is not due
      release_due(now, next);
      slots = due(now, next);
    }
    for (const Slot& slot : slots) compose(slot);
    send_composed();
    const Duration pause = slots.empty() ? next - options_.now() : Duration::zero();
    for (auto& [id, answer] :
         courier_.wait(composed_.patience(std::max(pause, Duration::zero())))) {
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
  std::set<std::pair<std::string, std::string>> blocked;  // key of the sink, incident
  std::map<std::string, std::size_t> busy;                // requests under way, by key of the sink
  for (const auto& [number, index] : in_flight_)
    ++busy[key_of(entries_.at(number).deliveries.at(index).sink)];
  for (auto& [number, entry] : entries_) {
    for (std::size_t i = 0; i < entry.deliveries.size(); ++i) {
      PendingDelivery& delivery = entry.deliveries[i];
      if (delivery.state != DeliveryState::Waiting || delivery.held) continue;
      const std::string sink = key_of(delivery.sink);
      const bool first = blocked.insert({sink, entry.alert.id}).second;
      const Slot slot{number, i};
      if (!first || in_flight_.contains(slot)) continue;
      // A wall clock that was set back must not stop deliveries.
      const WallTime latest = now + std::max(options_.longest_pause * 2, options_.longest_asked);
      delivery.next = std::min(delivery.next, latest);
      WallTime& free = not_before_[sink];
      free = std::min(free, latest);
      std::size_t& of_sink = busy[sink];
      if (const WallTime at = std::max(delivery.next, free); at > now) {
        next = std::min(next, at);
      } else if (in_flight_.size() < kMostRequests && of_sink < kMostOfOneSink) {
        in_flight_.insert(slot);
        slots.push_back(slot);
        ++of_sink;
        if (const SinkKind* kind = find_kind(delivery.sink.kind)) free = now + kind->pace;
      }
    }
  }
  return slots;
}

// On a thread of that sink: a secret may lie in a file system that does not answer.
void OutboxAlerts::compose(const Slot& slot) {
  RenderedAlert alert;
  core::SinkPolicy policy;
  {
    const std::lock_guard lock(mutex_);
    const PendingDelivery& delivery = entries_.at(slot.first).deliveries.at(slot.second);
    alert = entries_.at(slot.first).alert;
    alert.instead_of = delivery.instead_of;
    alert.escalated = delivery.escalated;
    alert.thread = delivery.thread;
    alert.also = delivery.also;
    extend_report(alert);
    policy = delivery.sink;
  }
  requests_[next_request_] = slot;
  const std::string lane = key_of(policy);
  composed_.start(next_request_++, lane, kComposeLimit,
                  [alert = std::move(alert), policy = std::move(policy)]() -> Result<Request> {
                    STOKER_TRY(sink, make_sink(policy));
                    return sink->request(alert, wall_now());
                  });
}

void OutboxAlerts::send_composed() {
  for (auto& [id, request] : composed_.collect()) {
    if (request) {
      courier_.start(id, *request);
      continue;
    }
    const Slot slot = requests_.at(id);
    requests_.erase(id);
    Error why = request.error();
    {
      const std::lock_guard lock(mutex_);
      const auto& sink = entries_.at(slot.first).deliveries.at(slot.second).sink;
      if (why.object == key_of(sink)) why.object = "a file that sink " + sink.name + " names";
    }
    settle(slot, Retry{why.message()});
  }
}

void OutboxAlerts::settle(const Slot& slot, const Delivery& outcome) {
  const std::lock_guard lock(mutex_);
  in_flight_.erase(slot);
  OutboxEntry& entry = entries_.at(slot.first);
  PendingDelivery& delivery = entry.deliveries.at(slot.second);
  ++delivery.attempts;
  if (const auto* delivered = std::get_if<Delivered>(&outcome)) {
    delivery.state = DeliveryState::Delivered;
    sinks_.worked(delivery.sink);
    if (!delivered->but.empty()) sinks_.failed(delivery.sink, delivered->but, wall_now());
  } else if (const auto* refused = std::get_if<Refused>(&outcome)) {
    delivery.state = DeliveryState::Refused;
    delivery.why = refused->why;
    note("sink " + delivery.sink.name + " refused alert " + entry.alert.id + ": " + refused->why);
    sinks_.lost(delivery.sink, entry.alert, refused->why, wall_now());
    fall_back(entry, slot.second);
  } else {
    postpone(entry, slot.second, std::get<Retry>(outcome));
  }
  store(slot.first);
}

// Under the lock. What has nothing waiting is only a memory of its key.
void OutboxAlerts::store(std::uint64_t number) {
  OutboxEntry& entry = entries_.at(number);
  const bool waits = std::any_of(entry.deliveries.begin(), entry.deliveries.end(),
                                 [](const auto& d) { return d.state == DeliveryState::Waiting; });
  if (!waits) {
    entry.deliveries.clear();
    entry.others.clear();
    entry.rules = {};
  }
  if (!entry.fleeting)
    if (const auto written = store_.put(entry, false); !written) note(written.error().message());
  if (!waits) entries_.erase(number);
  settled_.notify_all();
}

void OutboxAlerts::postpone(OutboxEntry& entry, std::size_t index, const Retry& retry) {
  const WallTime now = options_.now();
  const RenderedAlert& alert = entry.alert;
  PendingDelivery& delivery = entry.deliveries.at(index);
  const Duration waited = now - std::max(alert.at, delivery.ready);
  delivery.why = retry.why;
  if (entry.fleeting || waited > options_.give_up) {
    delivery.state = DeliveryState::GivenUp;
    if (entry.fleeting) return sinks_.failed(delivery.sink, retry.why, now);
    note("gave up on alert " + alert.id + " for sink " + delivery.sink.name + " after " +
         std::to_string(delivery.attempts) + " attempts in " + format_duration(waited) + ": " +
         retry.why);
    sinks_.lost(delivery.sink, alert, retry.why, now);
    return fall_back(entry, index);
  }
  sinks_.failed(delivery.sink, retry.why, now);
  Duration pause = options_.first_pause;
  for (std::uint32_t i = 1; i < delivery.attempts && pause < options_.longest_pause; ++i)
    pause *= 2;
  pause = std::min(pause, options_.longest_pause);
  const double share =
      jitter(alert.key.text + delivery.sink.name + std::to_string(delivery.attempts));
  pause = from_seconds(to_seconds(pause) * share);
  if (retry.after) {
    pause = std::clamp(*retry.after, pause, std::max(pause, options_.longest_asked));
    not_before_[key_of(delivery.sink)] = now + pause;  // for its other alerts too
  }
  delivery.next = now + pause;
  if (waited > options_.fall_back) fall_back(entry, index);
}

// Under the lock. Once an alert: the sinks that were not routed take it over, and receive its end.
void OutboxAlerts::fall_back(OutboxEntry& entry, std::size_t failed) {
  const RenderedAlert& alert = entry.alert;
  const std::string name = entry.deliveries.at(failed).sink.name;
  const auto sent = sent_.find(alert.id);
  if (alert.severity < core::Severity::Critical || status_of(alert) != "firing" ||
      name == kPulseSink || sent == sent_.end())
    return;
  const std::string instead = name + ": " + entry.deliveries.at(failed).why;
  for (core::SinkPolicy& other : std::exchange(entry.others, {})) {
    SentSink& sink = sent->second.sinks[other.name];
    const WallTime now = options_.now();
    if (sink.first == WallTime{}) sink.first = now;
    sink.at = now;
    sink.severity = alert.severity;
    sink.held = false;
    ++sink.times;
    PendingDelivery delivery;
    delivery.sink = std::move(other);
    delivery.next = now;
    delivery.instead_of = instead;
    entry.deliveries.push_back(std::move(delivery));
  }
  if (const auto written = store_.put_sent(sent_); !written) note(written.error().message());
}

// Under the lock.
void OutboxAlerts::note(const std::string& text) {
  notes_.push_back(text);
  if (notes_.size() > kMostNotes) notes_.erase(notes_.begin());
  // Where the pulse log cannot be written either, health() still reports it.
  (void)os::append_file(options_.pulse_path, pulse_line(wall_now(), "alerts: " + text),
                        os::Durability::Cached);
}

}  // namespace stoker::alerts
