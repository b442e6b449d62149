// The table of sink kinds.
#include <algorithm>
#include <array>

#include "alerts/sink.hpp"

namespace stoker::alerts {

const std::vector<SinkKind>& known_sinks() {
  static const std::vector<SinkKind> kinds{
      pulse_kind(),
      webhook_kind(),
  };
  return kinds;
}

namespace {
const SinkKind* find_kind(const std::string& kind) {
  for (const auto& known : known_sinks())
    if (known.kind == kind) return &known;
  return nullptr;
}

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
// What a person mends at the receiver's side, without a word to us: a proxy that redirects, a
// secret that has expired, an address that is not there yet. Anything else of 4xx says that the
// request is wrong, and it would be as wrong the next time.
bool can_be_mended(long status) {
  constexpr std::array kMendable{401L, 403L, 404L, 407L, 408L, 425L, 429L};
  return status < 400 || status >= 500 ||
         std::find(kMendable.begin(), kMendable.end(), status) != kMendable.end();
}
}  // namespace

Delivery Sink::judge(const HttpAnswer& answer) {
  if (answer.status == 0) return Retry{answer.error, {}};
  if (answer.status >= 200 && answer.status < 300) return Delivered{};
  const std::string why = "answer " + std::to_string(answer.status) +
                          (answer.body.empty() ? "" : ": " + one_line(answer.body, 200));
  if (can_be_mended(answer.status)) return Retry{why, answer.retry_after};
  return Refused{why};
}

}  // namespace stoker::alerts
