// The table of sink kinds.
#include <algorithm>
#include <array>
#include <cstdlib>

#include "alerts/http_sink.hpp"

namespace stoker::alerts {

const std::vector<SinkKind>& known_sinks() {
  static const std::vector<SinkKind> kinds{
      pulse_kind(), webhook_kind(),    email_kind(),     exec_kind(), alertmanager_kind(),
      slack_kind(), mattermost_kind(), pagerduty_kind(), ntfy_kind(), discord_kind(),
      teams_kind(), opsgenie_kind(),   matrix_kind(),    otlp_kind(),
  };
  return kinds;
}

const SinkKind* find_kind(const std::string& kind) {
  for (const auto& known : known_sinks())
    if (known.kind == kind) return &known;
  return nullptr;
}

namespace {

template <class List>
std::string join_names(const List& list) {
  std::string out;
  for (const auto& entry : list) {
    if constexpr (requires { entry.kind; })
      out += (out.empty() ? "" : ", ") + entry.kind;
    else
      out += (out.empty() ? "" : ", ") + entry.name;
  }
  return out;
}
}  // namespace

Status check_sink(const core::SinkPolicy& policy) {
  const std::string object = "alerts.sinks." + policy.name;
  const SinkKind* kind = find_kind(policy.kind);
  if (kind == nullptr)
    return fail("unknown kind of sink \"" + policy.kind + "\"", object,
                "known: " + join_names(known_sinks()));
  for (const auto& [name, value] : policy.options) {
    const bool known = std::any_of(kind->options.begin(), kind->options.end(),
                                   [&name = name](const SinkOption& o) { return o.name == name; });
    if (!known)
      return fail("unknown option \"" + name + "\" of a " + policy.kind + " sink", object,
                  "known: " + join_names(kind->options));
  }
  for (const auto& option : kind->options)
    if (option.required && !policy.options.contains(option.name))
      return fail("\"" + option.name + "\" is missing: " + option.meaning, object);
  if (kind->check != nullptr) return kind->check(policy);
  return ok();
}

Result<std::unique_ptr<Sink>> make_sink(const core::SinkPolicy& policy) {
  STOKER_TRY_STATUS(check_sink(policy));
  return find_kind(policy.kind)->make(policy);
}

namespace {
// What a person may repair at the receiver's side: a proxy that redirects, a secret that has
// expired, an address that is not there yet. Anything else of 4xx says that the request is wrong,
// and it would be as wrong the next time.
bool can_change(long status) {
  constexpr std::array kMayChange{401L, 403L, 404L, 407L, 408L, 425L, 429L};
  return status < 400 || status >= 500 ||
         std::find(kMayChange.begin(), kMayChange.end(), status) != kMayChange.end();
}
}  // namespace

namespace {
// Some receivers say it in the body: Discord in seconds, Matrix in milliseconds.
std::optional<Duration> retry_after_of(const Answer& answer) {
  if (answer.retry_after) return answer.retry_after;
  const auto number = [&](const char* name) {
    const std::string text = answer_field(answer, name);
    return text.empty() ? 0.0 : std::strtod(text.c_str(), nullptr);
  };
  const double seconds = std::max(number("retry_after"), number("retry_after_ms") / 1000);
  if (seconds > 0 && seconds < 1e6) return from_seconds(seconds);
  return std::nullopt;
}
}  // namespace

Delivery Sink::judge(const Answer& answer) const {
  if (answer.status == 0) return Retry{answer.error, {}};
  if (answer.status >= 200 && answer.status < 300) return accept(answer);
  const std::string why = "answer " + std::to_string(answer.status) +
                          (answer.body.empty() ? "" : ": " + one_line(answer.body, 200));
  if (can_change(answer.status)) return Retry{why, retry_after_of(answer)};
  return Refused{why};
}

Delivery Sink::accept(const Answer&) const {
  return Delivered{};
}

}  // namespace stoker::alerts
