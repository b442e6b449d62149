// RUN.yaml: `alerts`: who is informed of what, when.
#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "configs/schema/run_sections.hpp"
#include "core/alerts/alert_kind.hpp"
#include "core/alerts/alert_policy.hpp"

namespace stoker::configs {
namespace {

// One option of a sink as text; a list is a JSON array: no item can be taken for two.
void read_option(MapReader& m, const std::string& name, core::SinkPolicy& sink) {
  const bool given = m.at(name).given();  // asked for, so that it is known
  if (!given) return;
  std::string text;
  if (m.at(name).shape() == Shape::Sequence) {
    std::vector<std::string> list;
    if (m.read(name, list)) text = dump_json(Json(list));
  } else {
    m.read(name, text);
  }
  sink.options[name] = text;
}

void read_sink(const ValueReader& entry, core::SinkPolicy& sink, const RunSchemaContext& context) {
  std::vector<std::string> kinds;
  for (const SinkKind& k : context.sinks) kinds.push_back(k.kind);
  entry.map([&](MapReader& m) {
    m.require("kind", sink.kind);
    const auto known = std::find(kinds.begin(), kinds.end(), sink.kind);
    if (known == kinds.end()) {
      const std::string near = nearest_name(sink.kind, kinds);
      if (m.has("kind"))
        m.check("kind", false,
                fmt::format("this version of stoker knows no sink \"{}\"; {}{}", sink.kind,
                            near.empty() ? "known: " : "did you mean ",
                            near.empty() ? fmt::format("{}", fmt::join(kinds, ", "))
                                         : "\"" + near + "\"?"));
      if (entry.shape() == Shape::Map)  // its options cannot be judged
        entry.entries([&](const YamlKey& key, ValueReader&) { m.at(key.text); });
      return;
    }
    const SinkKind& kind = context.sinks[static_cast<std::size_t>(known - kinds.begin())];
    for (const std::string& name : kind.required) {
      m.required(name);
      read_option(m, name, sink);
    }
    for (const std::string& name : kind.optional) read_option(m, name, sink);
    for (auto& [name, value] : sink.options)
      if ((name == "path" || name.ends_with("_file")) && !value.empty() &&
          !value.starts_with("credential:"))
        value =
            path_from(std::string(context.config_path, 0, context.config_path.rfind('/')), value);
    if (!context.sink_error) return;
    if (const std::string why = context.sink_error(sink); !why.empty()) entry.error(why);
  });
}

// "to" and the like: each must be a sink of alerts.sinks.
void read_receivers(MapReader& m, const core::AlertPolicy& p, std::vector<std::string>& to) {
  std::vector<std::string> names;
  for (const core::SinkPolicy& sink : p.sinks) names.push_back(sink.name);
  m.require("to", to);
  if (m.has("to")) m.check("to", !to.empty(), "needs at least one sink");
  for (const std::string& name : to) {
    const std::string near = nearest_name(name, names);
    m.check("to", std::find(names.begin(), names.end(), name) != names.end(),
            fmt::format("\"{}\" is no sink of alerts.sinks{}", name,
                        near.empty() ? "" : "; did you mean \"" + near + "\"?"));
  }
}

// Labels that an alert has; another could never match.
void check_labels(MapReader& m, std::string_view key, const std::vector<std::string>& names) {
  const std::vector<std::string> known{"run", "kind", "severity", "node", "subject"};
  for (const std::string& name : names) {
    const std::string near = nearest_name(name, known);
    m.check(key, std::find(known.begin(), known.end(), name) != known.end(),
            fmt::format("no alert has a label \"{}\"; {}", name,
                        near.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                                     : "did you mean \"" + near + "\"?"));
  }
}

// "hang|limbo", "*".
void check_kinds(MapReader& m, std::string_view key, const std::string& kinds) {
  std::vector<std::string> known{"*"};
  for (const core::AlertKindRow& row : core::kAlertKinds) known.emplace_back(row.name);
  for (std::size_t begin = 0; begin <= kinds.size();) {
    const std::size_t end = std::min(kinds.find('|', begin), kinds.size());
    const std::string kind = kinds.substr(begin, end - begin);
    const std::string near = nearest_name(kind, known);
    m.check(key, std::find(known.begin(), known.end(), kind) != known.end(),
            fmt::format("no alert is of the kind \"{}\"; {}", kind,
                        near.empty() ? "docs/alert-kinds.md lists them"
                                     : "did you mean \"" + near + "\"?"));
    begin = end + 1;
  }
}

void read_match(MapReader& m, std::string_view key, core::LabelMatch& match) {
  m.read(key, match);
  std::vector<std::string> names;
  for (const auto& [name, values] : match) names.push_back(name);
  check_labels(m, key, names);
  if (const auto kinds = match.find("kind"); kinds != match.end())
    check_kinds(m, key, kinds->second);
}

void read_group(MapReader& m, core::GroupRule& group) {
  m.read("group_by", group.by);
  if (group.by != std::vector<std::string>{"..."}) check_labels(m, "group_by", group.by);
  m.read("group_wait", group.wait);
  m.check("group_wait", group.wait >= Duration::zero() && group.wait <= 1h,
          "must be between 0s and 1h");
}

// "22:00", or "24:00" for the end of a day, in minutes.
std::optional<std::uint32_t> parse_time_of_day(const std::string& text) {
  std::uint32_t hours = 0, minutes = 0;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || text.size() != colon + 3) return std::nullopt;
  const char* end = text.data() + text.size();
  const auto hour = std::from_chars(text.data(), end, hours);
  const auto minute = std::from_chars(text.data() + colon + 1, end, minutes);
  if (hour.ec != std::errc() || hour.ptr != text.data() + colon || minute.ec != std::errc() ||
      minute.ptr != end || minutes > 59 || hours * 60 + minutes > 24 * 60)
    return std::nullopt;
  return hours * 60 + minutes;
}

void read_time_of_day(MapReader& m, std::string_view key, std::uint32_t& out) {
  std::string text;
  m.require(key, text);
  const auto minutes = parse_time_of_day(text);
  if (m.has(key))
    m.check(key, minutes.has_value(), "expected a time of day like 22:00, got \"" + text + "\"");
  out = minutes.value_or(0);
}

void read_zone(MapReader& m, bool& utc) {
  std::string zone = "local";
  m.read("zone", zone);
  m.check("zone", zone == "local" || zone == "UTC",
          "expected local (the daemon's) or UTC, got \"" + zone + "\"");
  utc = zone == "UTC";
}

constexpr std::array kDays{"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

std::uint32_t day_of(MapReader& m, std::string_view key, const std::string& day) {
  const auto found = std::find(kDays.begin(), kDays.end(), day);
  m.check(key, found != kDays.end(),
          fmt::format("\"{}\" is no day; known: {}", day, fmt::join(kDays, ", ")));
  return static_cast<std::uint32_t>(found - kDays.begin()) % 7;
}

void read_days(MapReader& m, std::vector<std::uint32_t>& days) {
  std::vector<std::string> given;
  m.read("days", given);
  for (const std::string& day : given) days.push_back(day_of(m, "days", day));
}

// One map, or a list of them.
void one_or_more(const ValueReader& value, const std::function<void(MapReader&)>& schema) {
  if (!value.given()) return;
  if (value.shape() == Shape::Map) return value.map(schema);
  value.list([&](ValueReader& item) { item.map(schema); });
}

void read_route(const ValueReader& item, core::AlertPolicy& p) {
  core::RoutePolicy route;
  route.group = p.group;
  item.map([&](MapReader& m) {
    m.read("severity", route.severity);
    read_match(m, "match", route.match);
    read_receivers(m, p, route.to);
    read_positive(m, "repeat", route.repeat);
    read_group(m, route.group);
  });
  p.routes.push_back(std::move(route));
}

void read_rules(MapReader& m, const core::AlertPolicy& p, core::AlertRules& rules) {
  one_or_more(m.at("quiet_hours"), [&](MapReader& q) {
    core::QuietHours hours;
    read_time_of_day(q, "from", hours.from);
    read_time_of_day(q, "to", hours.to);
    q.check("from", hours.from < 24 * 60, "a window begins before 24:00");
    read_days(q, hours.days);
    read_zone(q, hours.utc);
    rules.quiet_hours.push_back(std::move(hours));
  });
  one_or_more(m.at("escalate"), [&](MapReader& e) {
    core::EscalateRule rule;
    read_positive(e, "after", rule.after);
    read_receivers(e, p, rule.to);
    e.read("severity", rule.severity);
    rules.escalate.push_back(std::move(rule));
  });
  if (m.at("inhibit").given()) rules.inhibit.emplace();
  m.list("inhibit", [&](ValueReader& item) {
    core::InhibitRule rule;
    item.map([&](MapReader& i) {
      read_match(i, "source_match", rule.source);
      read_match(i, "target_match", rule.target);
      i.check("source_match", !rule.source.empty(), "needs at least one label of the cause");
      i.check("target_match", !rule.target.empty(), "needs at least one label of what waits");
      i.read("equal", rule.equal);
      check_labels(i, "equal", rule.equal);
    });
    rules.inhibit->push_back(std::move(rule));
  });
}

// Messages show it as a link, so it holds nothing that ends one.
bool is_web_address(const std::string& text) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]/_~%";
  const std::size_t host = text.starts_with("https://") ? 8 : 7;
  return (host == 8 || text.starts_with("http://")) && text.size() > host && text.size() <= 200 &&
         text[host] != '/' && text.find_first_not_of(kLetters) == std::string::npos;
}

// A digest does not go to a receiver that pages people or expects an end.
void check_digest_sink(MapReader& m, const core::AlertPolicy& p, const std::string& name) {
  for (const core::SinkPolicy& sink : p.sinks)
    if (sink.name == name)
      m.check("to",
              sink.kind != "pagerduty" && sink.kind != "opsgenie" && sink.kind != "alertmanager",
              fmt::format("{} ({}) is for incidents; a digest goes to mail or a chat", name,
                          sink.kind));
}

void read_digest(const ValueReader& value, core::AlertPolicy& p) {
  if (!value.given()) return;
  core::DigestRule rule;
  value.map([&](MapReader& d) {
    std::string day = "mon";
    d.read("day", day);
    rule.day = day_of(d, "day", day);
    if (d.has("at")) read_time_of_day(d, "at", rule.at);
    d.check("at", rule.at < 24 * 60, "a day ends before 24:00");
    read_zone(d, rule.utc);
    read_receivers(d, p, rule.to);
    for (const std::string& name : rule.to) check_digest_sink(d, p, name);
  });
  p.digest = std::move(rule);
}

}  // namespace

void read_alerts(MapReader& m, core::AlertPolicy& p, const RunSchemaContext& context) {
  m.at("sinks").entries([&](const YamlKey& key, ValueReader& entry) {
    core::SinkPolicy sink;
    sink.name = key.text;
    read_sink(entry, sink, context);
    p.sinks.push_back(std::move(sink));
  });
  read_group(m, p.group);
  m.list("routes", [&](ValueReader& item) { read_route(item, p); });
  read_rules(m, p, p.rules);
  read_digest(m.at("digest"), p);
  m.read("page", p.page);
  m.check("page", p.page.empty() || is_web_address(p.page),
          "must be http:// or https://, a host and nothing that needs encoding");
  m.map("dead_man", [&](MapReader& d) {
    d.read("url_file", p.dead_man_url_file);
    if (!p.dead_man_url_file.empty())
      p.dead_man_url_file = path_from(
          std::string(context.config_path, 0, context.config_path.rfind('/')), p.dead_man_url_file);
    read_positive(d, "every", p.dead_man_every);
  });
}

}  // namespace stoker::configs
