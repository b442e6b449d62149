// One function a document; times are RFC 3339, but points carry milliseconds since 1970.
#include "daemon/http/run_api.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "core/publish/downsample.hpp"

namespace stoker::daemon {
namespace {

using core::History;
using core::HistoryPoint;

constexpr const char* kJson = "application/json";
constexpr std::size_t kFewestPoints = 2, kMostPoints = 5000, kUsualPoints = 600;

struct Asked {
  const SiteView& view;
  const wire::StatusDocument& run;
  const RunParts& parts;
  const WebRequest& request;
};

Page json_page(const Json& document) {
  return {200, kJson, dump_json(document) + "\n"};
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// ---- series
// The first point at or behind `bound`: an iteration or a time.
Result<std::size_t> place_of(const std::vector<HistoryPoint>& points, const std::string& name,
                             const std::string& bound) {
  const auto first = [&](auto&& reached) {
    return static_cast<std::size_t>(std::find_if(points.begin(), points.end(), reached) -
                                    points.begin());
  };
  if (const auto iteration = whole_number(bound))
    return first([&](const HistoryPoint& point) { return point.iteration >= *iteration; });
  const auto time = parse_rfc3339(bound);
  if (!time)
    return fail("is neither an iteration nor a time like 2026-05-01T03:56:11Z", name + "=" + bound);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(time->time_since_epoch()).count();
  return first([&](const HistoryPoint& point) { return point.wall_ms >= ms; });
}

std::string number_text(float value) {
  return fmt::format("{:.7g}", value);
}

std::string samples_text(const std::vector<core::Sample>& samples) {
  std::string out;
  for (const core::Sample& s : samples)
    out += fmt::format("{}[{},{},{},{},{}]", out.empty() ? "" : ",", s.wall_ms, s.iteration,
                       number_text(s.low), number_text(s.mid), number_text(s.high));
  return "[" + out + "]";
}

Result<std::string> series_text(const History& history, const WebRequest& request,
                                core::Metric metric, std::size_t most) {
  const auto bound = [&](const char* name, std::size_t otherwise) -> Result<std::size_t> {
    const auto given = request.query.find(name);
    if (given == request.query.end()) return otherwise;
    return place_of(history.points(), name, given->second);
  };
  STOKER_TRY(from, bound("from", 0));
  STOKER_TRY(to, bound("to", history.points().size()));
  const std::size_t count = to > from ? to - from : 0;
  const auto samples = core::downsample(
      std::span(history.points()).subspan(std::min(from, history.points().size()), count), metric,
      most);
  return fmt::format("\"of\":{},\"points\":{}", count, samples_text(samples));
}

Result<Page> series(const Asked& asked) {
  STOKER_TRY_STATUS(only_known(asked.request, {"metric", "from", "to", "points"}));
  const auto& query = asked.request.query;
  const auto name = query.find("metric");
  const auto metric = name == query.end() ? std::nullopt : enum_from<core::Metric>(name->second);
  if (!metric)
    return fail(
        "is no metric", name == query.end() ? "(none)" : name->second,
        fmt::format("metric is one of {}", fmt::join(EnumNames<core::Metric>::names, ", ")));
  std::size_t most = kUsualPoints;
  if (const auto points = query.find("points"); points != query.end()) {
    const auto number = whole_number(points->second);
    if (!number || *number < kFewestPoints || *number > kMostPoints)
      return fail(fmt::format("is not a number from {} to {}", kFewestPoints, kMostPoints),
                  "points=" + points->second);
    most = *number;
  }
  const auto text = asked.parts.history->read(
      [&](const History& history) { return series_text(history, asked.request, *metric, most); });
  if (!text) return fail(text.error());
  return Page{
      200, kJson,
      fmt::format("{{\"run\":{},\"metric\":\"{}\",\"unit\":\"{}\",\"columns\":"
                  "[\"time_ms\",\"iteration\",\"low\",\"mid\",\"high\"],{}}}\n",
                  dump_json(asked.run.run), name_of(*metric), core::unit_of(*metric), *text)};
}

// ---- incidents, checkpoints, alerts
Json incident_json(const core::HistoryIncident& incident) {
  Json lines = Json::array();
  for (const auto& line : incident.lines)
    lines.push_back({{"time", format_rfc3339(line.wall)}, {"text", line.text}});
  return {{"kind", incident.kind},
          {"title", incident.title},
          {"planned", incident.planned},
          {"from", format_rfc3339(incident.from, true)},
          {"to", incident.to ? Json(format_rfc3339(*incident.to, true)) : Json()},
          {"ended_in", incident.ended_in},
          {"iteration", incident.iteration},
          {"repeated", incident.repeated},
          {"lines", std::move(lines)}};
}

Result<Page> incidents(const Asked& asked) {
  STOKER_TRY_STATUS(only_known(asked.request, {}));
  Json all = Json::array();
  asked.parts.history->read([&](const History& history) {
    for (const auto& incident : history.incidents()) all.push_back(incident_json(incident));
  });
  return json_page({{"run", asked.run.run}, {"incidents", std::move(all)}});
}

Result<Page> checkpoints(const Asked& asked) {
  STOKER_TRY_STATUS(only_known(asked.request, {}));
  Json all = Json::array();
  asked.parts.history->read([&](const History& history) {
    for (const auto& saved : history.checkpoints())
      all.push_back({{"iteration", saved.iteration},
                     {"name", saved.name},
                     {"bytes", saved.bytes},
                     {"seconds", saved.seconds},
                     {"time", format_rfc3339(saved.wall)},
                     {"fate", saved.fate}});
  });
  return json_page({{"run", asked.run.run}, {"checkpoints", std::move(all)}});
}

Result<Page> alerts(const Asked& asked) {
  STOKER_TRY_STATUS(only_known(asked.request, {}));
  return json_page({{"run", asked.run.run}, {"alerts", asked.run.alerts}});
}

// ---- nodes: which ranks they carry, and the ages that are known
Json oldest_json(const wire::Beat& beat) {
  Json oldest = Json::array();
  for (const wire::RankAge& rank : beat.oldest)
    oldest.push_back({{"rank", rank.rank.value},
                      {"node", rank.node.text},
                      {"age_s", rank.age_ms < 0 ? Json() : Json(double(rank.age_ms) / 1e3)},
                      {"phase", std::string(name_of(rank.phase))},
                      {"iteration", rank.iteration.value}});
  return oldest;
}

Json slowest_json(const wire::Beat& beat) {
  if (!beat.slowest) return {};
  return {{"rank", beat.slowest->rank.value},
          {"node", beat.slowest->node.text},
          {"s", beat.slowest->ms / 1e3},
          {"median_s", beat.slowest->median_ms / 1e3}};
}

Json node_json(const SiteView& view, const std::string& name, std::uint32_t first,
               std::uint32_t count) {
  Json node{{"node", name}, {"first_rank", first}, {"ranks", count}, {"state", "ok"}};
  for (const auto& known : view.nodes)
    if (known.node == name) {
      node["state"] = known.state;
      node["evidence"] = known.evidence;
    }
  return node;
}

Result<Page> nodes(const Asked& asked) {
  STOKER_TRY_STATUS(only_known(asked.request, {}));
  core::HistoryRanks ranks;
  std::optional<wire::Beat> beat;
  asked.parts.history->read([&](const History& history) {
    ranks = history.ranks();
    beat = history.newest_beat();
  });
  if (asked.parts.live) beat = asked.parts.live;
  if (ranks.nodes.empty()) ranks.nodes = asked.run.nodes;
  const auto count = static_cast<std::uint32_t>(ranks.nodes.size());
  const std::uint32_t each = count == 0 ? 0 : (ranks.world_size + count - 1) / count;
  Json all = Json::array();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t first = i * each;
    const std::uint32_t left = ranks.world_size > first ? ranks.world_size - first : 0;
    all.push_back(node_json(asked.view, ranks.nodes[i], first, std::min(each, left)));
  }
  Json out{{"run", asked.run.run},
           {"generation", ranks.generation},
           {"attempt", ranks.attempt},
           {"world_size", ranks.world_size},
           {"limit_s", asked.run.deadline_s},
           {"nodes", std::move(all)}};
  if (beat) {
    out["oldest"] = oldest_json(*beat);
    out["newest_age_s"] = static_cast<double>(beat->newest_progress_age_ms) / 1e3;
    out["slowest"] = slowest_json(*beat);
  }
  return json_page(out);
}

using Answer = Result<Page> (*)(const Asked&);
constexpr std::pair<std::string_view, Answer> kAnswers[] = {{"series", series},
                                                            {"incidents", incidents},
                                                            {"checkpoints", checkpoints},
                                                            {"nodes", nodes},
                                                            {"alerts", alerts}};

}  // namespace

Page refuse(int status, const Error& error) {
  return {status, kJson, dump_json({{"error", error.message()}}) + "\n"};
}

Page run_api(const SiteView& view, std::string_view rest, const WebRequest& request) {
  const auto slash = rest.find('/');
  const std::string name(rest.substr(0, slash));
  const std::string_view what = slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  const auto run = std::find_if(view.runs.begin(), view.runs.end(),
                                [&](const auto& known) { return known.run == name; });
  if (run == view.runs.end())
    return refuse(404, Error{"there is no run of this name", name, "/api/v1/status lists them"});
  if (what.empty()) return json_page(*run);
  const auto parts = view.parts.find(name);
  if (parts == view.parts.end() || parts->second.history == nullptr)
    return refuse(503, Error{"its history is not known yet", name, "ask again in a second"});
  for (const auto& [path, answer] : kAnswers)
    if (path == what) {
      auto page = answer({view, *run, parts->second, request});
      return page ? *std::move(page) : refuse(400, page.error());
    }
  return refuse(404, Error{"there is no such document", std::string(what),
                           "series, incidents, nodes, checkpoints, alerts, logs"});
}

}  // namespace stoker::daemon
