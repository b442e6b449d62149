// stoker sim SCENARIO.yaml: a simulated cluster against the very engine, and what it proves.
#include <fmt/format.h>
#include <memory>
#include <thread>

#include "cli/commands/all.hpp"
#include "common/os/files.hpp"
#include "sim/universe/campaign.hpp"

namespace stoker::cli {
namespace {

constexpr int kSafetyBroken = 2, kLivenessBroken = 3, kWrongUse = 64;

struct SimOptions {
  std::string file, guard = "none", seeds;
  std::uint64_t seed = 1, runs = 1;
  double hours = 0;
  std::string within;
  unsigned jobs = 0;
  bool trace = false, digest = false, shrink = false, json = false, row = false;
};

// "5" or "5-20".
bool read_seeds(const SimOptions& options, sim::Campaign& campaign) {
  campaign.first = options.seed;
  campaign.last = options.seed + std::max<std::uint64_t>(1, options.runs) - 1;
  if (options.seeds.empty()) return true;
  unsigned long long first = 0, last = 0;
  char more = 0;
  const int read = std::sscanf(options.seeds.c_str(), "%llu-%llu%c", &first, &last, &more);
  if (read != 2 || first > last) return false;
  campaign.first = first;
  campaign.last = last;
  return true;
}

void tell_failures(Console& console, const SimOptions& options, const sim::Report& report) {
  for (const sim::Failure& failure : report.failures) {
    for (const std::string& text : failure.safety) console.say(fmt::format("safety: {}", text));
    for (const std::string& text : failure.liveness) console.say(fmt::format("liveness: {}", text));
    console.say(fmt::format("again: stoker sim {} --seed {}{}{} --trace", options.file,
                            failure.seed,
                            options.guard == "none" ? "" : " --break " + options.guard,
                            options.hours > 0 ? fmt::format(" --hours {}", options.hours) : ""));
  }
}

int exit_code(const sim::Report& report) {
  if (report.safety > 0) return kSafetyBroken;
  return report.liveness > 0 ? kLivenessBroken : kDone;
}

// What the scenario expects of the run. False: said.
bool as_expected(Console& console, const sim::Scenario& scenario, const sim::Report& report) {
  const Duration lost =
      report.lost / static_cast<std::int64_t>(std::max<std::uint64_t>(1, report.runs));
  const bool ettr = report.ettr >= scenario.expect.ettr_at_least;
  const bool loss = scenario.expect.lost_at_most == 0ns || lost <= scenario.expect.lost_at_most;
  if (!ettr)
    console.say(fmt::format("expected an ETTR of at least {}, it is {:.4f}",
                            scenario.expect.ettr_at_least, report.ettr));
  if (!loss)
    console.say(fmt::format("expected at most {} lost, it is {}",
                            format_duration(scenario.expect.lost_at_most), format_duration(lost)));
  bool told = true;
  for (const std::string& kind : scenario.expect.alerts)
    if (!report.alerts.contains(kind)) {
      console.say(fmt::format("expected an alert {}, none was raised", kind));
      told = false;
    }
  return ettr && loss && told;
}

void tell(Console& console, const sim::Scenario& scenario, const sim::Report& report) {
  console.line(fmt::format(
      "{}: {} seeds, {:.0f} hours ({:.0f} % of them useful training), {} faults, {} incidents, {} "
      "for an operator; ETTR {:.4f}, lost {} a run; {} safety, {} liveness",
      scenario.name, report.runs, report.hours,
      100 * to_seconds(report.useful) / 3600 / report.hours, report.faults, report.incidents,
      report.manual, report.ettr,
      format_duration(report.lost /
                      static_cast<std::int64_t>(std::max<std::uint64_t>(1, report.runs))),
      report.safety, report.liveness));
  if (report.runs == 1) console.line(fmt::format("ends {}: {}", report.state, report.why));
}

// A line of docs/chronicles.md.
std::string chronicle_row(const sim::Scenario& scenario, const sim::Report& report) {
  const auto told = [](Duration d) {
    return d == 0ns ? std::string("unknown") : format_duration(d);
  };
  return fmt::format("| {} | {} | {}: {} | {} | {:.1f} % | {} | {} |", scenario.name,
                     scenario.about, told(scenario.lost_by_people), scenario.people,
                     format_duration(report.lost), 100 * report.ettr,
                     report.manual == 0 ? "no" : fmt::format("{} time(s)", report.manual),
                     scenario.source);
}

int simulate(Context& context, const SimOptions& options) {
  Console& console = context.console;
  const auto text = os::read_file(options.file, 1u << 20);
  if (!text) return console.say(text.error().message()), kWrongUse;
  configs::Diagnostics errors;
  sim::Scenario scenario = sim::read_scenario(*text, options.file, errors);
  for (const auto& error : errors) console.say(printable(error.text()));
  if (!errors.empty()) return kWrongUse;
  const auto guard = enum_from<sim::Guard>(options.guard);
  sim::Campaign campaign;
  if (!guard)
    return console.say(fmt::format("--break {}: no such guard", options.guard)), kWrongUse;
  if (!read_seeds(options, campaign))
    return console.say(fmt::format("--seeds {}: expected A-B", options.seeds)), kWrongUse;
  if (options.hours > 0) scenario.length = from_seconds(options.hours * 3600);
  campaign.broken = *guard;
  campaign.threads = options.jobs == 0 ? std::thread::hardware_concurrency() : options.jobs;
  if (!options.within.empty()) {
    const auto limit = parse_duration(options.within);
    if (!limit) return console.say(limit.error().message()), kWrongUse;
    campaign.wall_limit = *limit;
  }
  campaign.until_first = *guard != sim::Guard::None;
  if (options.digest) {
    for (const std::string& line : sim::trace_digests(scenario, campaign)) console.line(line);
    return kDone;
  }
  if (options.trace) campaign.trace = [&console](const std::string& line) { console.line(line); };
  const sim::Report report = sim::run_campaign(scenario, campaign);
  if (options.row)
    console.line(chronicle_row(scenario, report));
  else if (options.json)
    console.line(to_json_text(report));
  else
    tell(console, scenario, report);
  tell_failures(console, options, report);
  if (options.shrink && !report.failures.empty())
    for (const std::string& line : sim::shrink(scenario, campaign, report.failures.front().seed))
      console.line(line);
  const bool expected = as_expected(console, scenario, report);
  const int code = exit_code(report);
  return code == kDone && !expected ? kLivenessBroken : code;
}

}  // namespace

Command cmd_sim() {
  return {"sim",
          "simulate a cluster, and check what must always hold",
          {"stoker sim sim/scenarios/chaos.yaml --seeds 1-100",
           "stoker sim sim/scenarios/chaos.yaml --seed 7 --trace",
           "stoker sim sim/scenarios/chaos.yaml --break fencing --runs 1000"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<SimOptions>();
            app.add_option("SCENARIO", options->file, "a scenario (docs/recovery.md)")->required();
            app.add_option("--seed", options->seed, "the first seed");
            app.add_option("--runs", options->runs, "how many seeds");
            app.add_option("--seeds", options->seeds, "seeds A-B");
            app.add_option("--hours", options->hours, "simulated hours instead of the scenario's");
            app.add_option("--within", options->within, "begin no new seed after this: 60s");
            app.add_option("--break", options->guard,
                           "take one guard out: fencing, blind-is-not-dead, submit-token, "
                           "journal-first, budget, exclusion-cap, verify-checkpoint, stale-phase, "
                           "lease, dedupe; and keep-good, keep-pinned, rollback-pin, "
                           "archive-first, end-mark, follow-once, follow-proof, follow-kept");
            app.add_option("-j,--jobs", options->jobs, "threads (default: all cores)");
            app.add_flag("--trace", options->trace, "tell the whole story");
            app.add_flag("--digest", options->digest,
                         "one line a seed: XXH3 of its whole story, the same on every machine");
            app.add_flag("--shrink", options->shrink,
                         "of the first failing seed: the fewest faults that still fail");
            app.add_flag("--row", options->row, "one line of a Markdown table: people and stoker");
            app.add_flag("--json", options->json, "one JSON object");
            return [&context, options] { return simulate(context, *options); };
          }};
}

}  // namespace stoker::cli
