// Each silence is checked when it is made, so that one with a typing error cannot hide nothing.
#include "core/operators/silences.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "core/alerts/alert_kind.hpp"
#include "core/sentence.hpp"

namespace stoker::core {
namespace {

constexpr std::array kMatchers{"run", "kind", "severity", "node"};

bool is_control(const std::string& key) {
  return key == "for" || key == "end" || key == "extend";
}

// Why this matcher could never match; "" = it can.
std::string why_unknown(const std::string& key, const std::string& value) {
  if (std::find(kMatchers.begin(), kMatchers.end(), key) == kMatchers.end())
    return fmt::format("unknown matcher \"{}\": known are run, kind, severity and node", key);
  if (value.empty()) return fmt::format("{}= needs a value", key);
  if (key == "kind" && find_alert_kind(value) == nullptr)
    return fmt::format("unknown kind of alerts \"{}\": docs/alert-kinds.md lists them", value);
  if (key == "severity" && !enum_from<Severity>(value))
    return fmt::format("unknown severity \"{}\": known are info, warning and critical", value);
  return "";
}

std::string match_text(const Silence& silence) {
  std::string text;
  for (const auto& [key, value] : silence.match)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key, value);
  return text;
}

Silence* find(SiteState& site, const std::string& id) {
  const auto found = std::find_if(site.silences.begin(), site.silences.end(),
                                  [&](const Silence& s) { return s.id == id; });
  return found == site.silences.end() ? nullptr : &*found;
}

void set_end(const Turn& turn, Silence& silence, Duration length) {
  silence.until = turn.now() + length;
  silence.until_wall = turn.event.wall + length;
}

void make(Turn& turn, const OperatorAsked& asked, Duration length) {
  Silence silence;
  silence.id = fmt::format("s{}", turn.site.seq.value);
  silence.by = asked.by;
  silence.reason = asked.reason;
  silence.since = turn.event.wall;
  for (const auto& [key, value] : asked.arguments) {
    if (is_control(key)) continue;
    if (const std::string why = why_unknown(key, value); !why.empty()) return turn.reject(why);
    silence.match[key] = value;
  }
  if (silence.match.empty()) return turn.reject("a silence needs at least one key=value");
  set_end(turn, silence, length);
  turn.say(fmt::format("{} silenced alerts with {} for {} (silence {})", who_text(asked),
                       match_text(silence), format_duration(length), silence.id));
  if (const auto run = silence.match.find("run");
      run != silence.match.end() && !turn.site.runs.contains(RunName(run->second)))
    turn.say(fmt::format("no run \"{}\" is under supervision yet", run->second));
  turn.site.silences.push_back(std::move(silence));
}

}  // namespace

void on_silence(Turn& turn, const OperatorAsked& asked) {
  std::erase_if(turn.site.silences, [&](const Silence& s) { return s.until <= turn.now(); });
  const auto argument = [&](const char* key) {
    const auto found = asked.arguments.find(key);
    return found == asked.arguments.end() ? std::string() : found->second;
  };
  Duration length = 2h;
  if (const std::string text = argument("for"); !text.empty()) {
    const auto parsed = parse_duration(text);
    if (!parsed) return turn.reject(parsed.error().message());
    length = *parsed;
  }
  const std::string ended = argument("end"), extended = argument("extend");
  if (ended.empty() && extended.empty()) return make(turn, asked, length);
  const std::string& id = ended.empty() ? extended : ended;
  Silence* silence = find(turn.site, id);
  if (silence == nullptr)
    return turn.reject(fmt::format("no silence \"{}\" is in force; stoker silence --list", id));
  if (!extended.empty()) {
    set_end(turn, *silence, length);
    return turn.say(fmt::format("{} extended the silence {} ({}): {} from now", who_text(asked), id,
                                match_text(*silence), format_duration(length)));
  }
  turn.say(fmt::format("{} ended the silence {} ({})", who_text(asked), id, match_text(*silence)));
  std::erase_if(turn.site.silences, [&](const Silence& s) { return s.id == id; });
}

namespace {

// The silence in force that matches the alert; null: none does.
const Silence* silence_of(const SiteState& site, const AlertState& alert, Instant now) {
  for (const Silence& silence : site.silences) {
    if (silence.until <= now) continue;
    const auto matches = [&](const auto& pair) {
      const auto& [key, value] = pair;
      if (key == "run") return value == alert.run.text;
      if (key == "kind") return value == alert.kind;
      if (key == "severity") return value == stoker::name_of(alert.severity);
      if (key == "node" || key == "subject") return value == alert.subject;
      return false;
    };
    if (std::all_of(silence.match.begin(), silence.match.end(), matches)) return &silence;
  }
  return nullptr;
}

}  // namespace

bool is_silenced(const SiteState& site, const AlertState& alert, Instant now) {
  return silence_of(site, alert, now) != nullptr;
}

std::vector<wire::HeldAlert> silenced_alerts(const SiteState& site, Instant now) {
  std::vector<wire::HeldAlert> held;
  for (const auto& [id, alert] : site.alerts)
    if (const Silence* silence = silence_of(site, alert, now))
      held.push_back(
          {id, "",
           fmt::format("silence {} of {} ({})", silence->id, silence->by, match_text(*silence)),
           format_rfc3339(silence->until_wall)});
  return held;
}

std::vector<wire::StatusSilence> silences_of(const SiteState& site) {
  std::vector<const Silence*> in_force;
  for (const Silence& silence : site.silences)
    if (silence.until > site.now) in_force.push_back(&silence);
  std::stable_sort(in_force.begin(), in_force.end(),
                   [](const Silence* a, const Silence* b) { return a->until < b->until; });
  std::vector<wire::StatusSilence> result;
  for (const Silence* s : in_force)
    result.push_back({s->id, match_text(*s), s->by, s->reason, format_rfc3339(s->since),
                      format_rfc3339(s->until_wall)});
  return result;
}

}  // namespace stoker::core
