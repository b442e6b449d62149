// stoker doctor: checks the site and says how to fix each finding; exit 1 when something is bad.
#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/doctor/failing_sinks.hpp"
#include "cli/doctor/site_checks.hpp"
#include "cli/read/run_file.hpp"
#include "cli/read/writers.hpp"
#include "cli/show/documents.hpp"

namespace stoker::cli {
namespace {

// One line and the exit code of a check of Nagios or Icinga: 0 OK, 1 WARNING, 2 CRITICAL.
int nagios(const Console& console, const std::vector<Finding>& findings) {
  constexpr int kWarning = 1, kCritical = 2;
  std::string text;
  Health worst = Health::Good;
  for (const Finding& f : findings) {
    worst = std::max(worst, f.health);
    if (f.health != Health::Good)
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", f.check, printable(f.found));
  }
  const char* word = worst == Health::Bad ? "CRITICAL" : worst == Health::Note ? "WARNING" : "OK";
  console.line(fmt::format("STOKER {} - {}", word,
                           text.empty() ? fmt::format("{} checks", findings.size()) : text));
  return worst == Health::Bad ? kCritical : worst == Health::Note ? kWarning : kDone;
}

std::vector<Finding> check_writers(const std::string& run_file, const core::RunPolicy& policy) {
  std::vector<Finding> findings;
  for (const Executed& file : files_executed(run_file, policy))
    if (auto other = other_writer_of(file))
      findings.push_back({"writers", Health::Note, std::move(other->found), std::move(other->fix)});
  return findings;
}

// A RUN.yaml names servers and the files of secrets that they are sent: who else writes it must not
// choose both.
std::vector<Finding> ask_cluster(const Context& context, const std::string& run_file,
                                 const core::RunPolicy& policy) {
  const auto other = other_writer_of(run_file);
  if (!other) return check_slurm_run(context, policy);
  return {{"cluster", Health::Note, "not asked whether it would take this run: " + other->found,
           other->fix}};
}

struct Options {
  std::string run_file;
  bool json = false, nagios = false;
};

int doctor(Context& context, const Options& options) {
  const Console& console = context.console;
  std::vector<Finding> findings = check_site(context);
  for (Finding& finding : check_running(context)) findings.push_back(std::move(finding));
  for (Finding& finding : check_sinks(context)) findings.push_back(std::move(finding));
  if (!options.run_file.empty()) {
    const auto checked = read_run_file(context, options.run_file);
    if (!checked) return console.say(checked.error().message()), kUsage;
    if (show_errors(console, checked->file.errors) != kDone) return kUsage;
    for (Finding& finding : ask_cluster(context, options.run_file, checked->file.policy))
      findings.push_back(std::move(finding));
    for (Finding& finding : check_writers(options.run_file, checked->file.policy))
      findings.push_back(std::move(finding));
  }
  if (options.nagios) return nagios(console, findings);
  const bool good = std::none_of(findings.begin(), findings.end(),
                                 [](const Finding& f) { return f.health == Health::Bad; });
  if (options.json) {
    DoctorDocument document{good, {}};
    for (const Finding& f : findings)
      document.findings.push_back({f.check, f.health, f.found, f.fix});
    console.line(to_json_text(document));
    return good ? kDone : kFailed;
  }
  console.out(finding_text(console, findings));
  return good ? kDone : kFailed;
}

}  // namespace

Command cmd_doctor() {
  return {"doctor",
          "check the site and say how to fix each finding",
          {"stoker doctor", "stoker doctor tr11.yaml", "stoker doctor --json",
           "stoker doctor --nagios"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<Options>();
            app.add_option("RUN.yaml", options->run_file,
                           "also whether the cluster would take this run (submits nothing)");
            auto* json = app.add_flag("--json", options->json, "one JSON document");
            app.add_flag("--nagios", options->nagios,
                         "one line, and exit 0, 1 (worth knowing) or 2 (fix it)")
                ->excludes(json);
            return [&context, options] { return doctor(context, *options); };
          }};
}

}  // namespace stoker::cli
