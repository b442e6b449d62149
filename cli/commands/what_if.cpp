// Tables of closed forms, with the formula beneath each.
#include "cli/commands/what_if.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "cli/command.hpp"
#include "common/json.hpp"
#include "recipe/save_rounds.hpp"
#include "recipe/what_if.hpp"

namespace stoker::cli {
namespace {

constexpr const char* kEttr =
    "E[ETTR] = (1 - (u0 + dt/2)/M) / (1 + C/dt): dt between saves, C a save, u0 a restart, M "
    "between "
    "failures (Kokolis et al., HPCA 2025, arXiv 2410.21680)";
constexpr const char* kYoung = "sqrt(2 C M) (Young 1974)";
constexpr const char* kDaly = "sqrt(2 C M) (1 + sqrt(C/2M)/3 + C/18M) - C (Daly 2006)";
constexpr const char* kSpares =
    "P(out > s) = 1 - sum over k <= s of m^k e^-m / k!, m = nodes lost a day x days out (Poisson, "
    "Palm's theorem)";
constexpr const char* kRollback =
    "waiting w pays where the chance of recovery p > w / (K + w): it then costs (1 - p)(K + w) "
    "instead of K, what going back costs";

std::optional<Duration> positive(double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0 || seconds > 1e9) return std::nullopt;
  return from_seconds(seconds);
}

// A restart without what is repeated after it: the mean of the incidents that the run keeps.
std::optional<Duration> mean_restart(const wire::StatusDocument& status) {
  if (!status.goodput) return std::nullopt;
  double sum = 0;
  std::size_t n = 0;
  for (const wire::StatusIncident& i : status.goodput->incidents) {
    sum += std::max(0.0, i.s - static_cast<double>(i.repeated) * status.step_norm_s);
    ++n;
  }
  return n == 0 ? std::nullopt : positive(sum / static_cast<double>(n));
}

void fill_from_run(WhatIf& w, const wire::StatusDocument& status) {
  if (status.saves) {
    if (!w.interval) w.interval = positive(status.saves->usual_s);
    if (!w.save_cost) w.save_cost = positive(status.saves->cost_s);
    if (!w.mtbf) w.mtbf = positive(status.saves->mtbf_s);
  }
  if (!w.restart_cost) w.restart_cost = mean_restart(status);
  if (!w.restart_cost) w.restart_cost = Duration(5min);
  if (!w.wait) w.wait = Duration(30min);
}

Json interval_row(const std::string& what, Duration interval, const WhatIf& w, Duration mtbf) {
  return {{"what", what},
          {"interval_s", to_seconds(interval)},
          {"mtbf_s", to_seconds(mtbf)},
          {"ettr", recipe::expected_ettr(interval, *w.save_cost, *w.restart_cost, mtbf)}};
}

Json intervals(const WhatIf& w) {
  Json rows = Json::array();
  const Duration daly = recipe::daly_interval(*w.save_cost, *w.mtbf);
  rows.push_back(interval_row("Young", recipe::young_interval(*w.save_cost, *w.mtbf), w, *w.mtbf));
  rows.push_back(interval_row("Daly", daly, w, *w.mtbf));
  const Duration base = w.interval.value_or(daly);
  if (w.interval) rows.push_back(interval_row("as it is", base, w, *w.mtbf));
  rows.push_back(interval_row("half of it", base / 2, w, *w.mtbf));
  rows.push_back(interval_row("twice as long", base * 2, w, *w.mtbf));
  return rows;
}

Json failures(const WhatIf& w) {
  Json rows = Json::array();
  for (const auto& [what, factor] : {std::pair{"half as long between failures", 0.5},
                                     std::pair{"twice as long between failures", 2.0}}) {
    const Duration mtbf = from_seconds(to_seconds(*w.mtbf) * factor);
    const Duration kept = w.interval.value_or(recipe::daly_interval(*w.save_cost, *w.mtbf));
    rows.push_back(interval_row(what, kept, w, mtbf));
    rows.push_back(interval_row(std::string(what) + ", Daly",
                                recipe::daly_interval(*w.save_cost, mtbf), w, mtbf));
  }
  return rows;
}

Json spares(const WhatIf& w, const wire::StatusDocument& status, Duration exclude_for) {
  Json rows = Json::array();
  if (!status.spares || status.spares->lost_per_day <= 0) return rows;
  const double mean = status.spares->lost_per_day * to_seconds(exclude_for) / 86400;
  const std::uint32_t most = std::min(1024u, w.spares.value_or(std::max(4u, status.spares->free)));
  for (std::uint32_t s = w.spares ? most : 0; s <= most; ++s)
    rows.push_back({{"spares", s}, {"mean_out", mean}, {"short", recipe::short_of_nodes(mean, s)}});
  return rows;
}

Json rollback(const WhatIf& w, const wire::StatusDocument& status) {
  if (!status.checkpoint || status.step_norm_s <= 0 ||
      status.iteration <= status.checkpoint->iteration)
    return nullptr;
  const auto again = static_cast<double>(status.iteration - status.checkpoint->iteration);
  const Duration cost = from_seconds(again * status.step_norm_s) + *w.restart_cost;
  return {{"to", status.checkpoint->iteration},
          {"iterations_again", status.iteration - status.checkpoint->iteration},
          {"cost_s", to_seconds(cost)},
          {"wait_s", to_seconds(*w.wait)},
          {"even_chance", recipe::even_chance(cost, *w.wait)}};
}

std::string text_of(const Json& seconds) {
  return format_duration(from_seconds(std::round(seconds.get<double>())));
}

void show_rows(const Console& console, const Json& rows) {
  for (const Json& row : rows)
    console.line(fmt::format("  {:<38} save every {:<10} ETTR {:.2f} %",
                             row["what"].get<std::string>(), text_of(row["interval_s"]),
                             100 * row["ettr"].get<double>()));
}

void show(const Console& console, const Json& doc) {
  const Json& in = doc["inputs"];
  console.line(fmt::format("a save costs {}, a restart {}, a failure every {}",
                           text_of(in["save_cost_s"]), text_of(in["restart_cost_s"]),
                           text_of(in["mtbf_s"])));
  console.line("save interval:");
  show_rows(console, doc["intervals"]);
  console.line("time between failures:");
  show_rows(console, doc["failures"]);
  for (const char* name : {"ettr", "young", "daly"})
    console.line(fmt::format("  {}: {}", name, doc["formulas"][name].get<std::string>()));
  if (doc["spares"].empty()) {
    console.line("spares: cannot estimate, the site has not lost two nodes yet");
  } else {
    console.line("spares:");
    for (const Json& row : doc["spares"])
      console.line(fmt::format("  {} spare: short of nodes {:.1f} % of the time",
                               row["spares"].get<int>(), 100 * row["short"].get<double>()));
    console.line("  " + doc["formulas"]["spares"].get<std::string>());
  }
  if (doc["rollback"].is_null())
    return console.line("rollback: cannot estimate, the run has no iterations behind a checkpoint");
  const Json& r = doc["rollback"];
  console.line(fmt::format(
      "rollback now to {}: costs {} ({} iterations again); waiting {} first pays where it recovers "
      "with a chance above {:.0f} %",
      r["to"].get<std::uint64_t>(), text_of(r["cost_s"]),
      r["iterations_again"].get<std::uint64_t>(), text_of(r["wait_s"]),
      100 * r["even_chance"].get<double>()));
  console.line("  " + doc["formulas"]["rollback"].get<std::string>());
}

}  // namespace

int show_what_if(const Console& console, const wire::StatusDocument& status, WhatIf given,
                 Duration exclude_for, bool json) {
  fill_from_run(given, status);
  if (!given.save_cost || !given.mtbf)
    return console.say(
               "--what-if needs to know what a save costs and how often the run fails: give "
               "--save-cost and --mtbf, or ask again when the run has saved and failed once"),
           kFailed;
  const Json doc{{"inputs",
                  {{"interval_s", given.interval ? Json(to_seconds(*given.interval)) : Json()},
                   {"save_cost_s", to_seconds(*given.save_cost)},
                   {"restart_cost_s", to_seconds(*given.restart_cost)},
                   {"mtbf_s", to_seconds(*given.mtbf)}}},
                 {"intervals", intervals(given)},
                 {"failures", failures(given)},
                 {"spares", spares(given, status, exclude_for)},
                 {"rollback", rollback(given, status)},
                 {"formulas",
                  {{"ettr", kEttr},
                   {"young", kYoung},
                   {"daly", kDaly},
                   {"spares", kSpares},
                   {"rollback", kRollback}}}};
  if (json)
    console.line(dump_json(doc));
  else
    show(console, doc);
  return kDone;
}

}  // namespace stoker::cli
