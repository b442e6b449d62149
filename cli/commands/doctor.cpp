// stoker doctor: checks the site and says how to mend each finding; exit 1 when something is bad.
#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/site_checks.hpp"

namespace stoker::cli {
namespace {

int doctor(Context& context, bool json) {
  const Console& console = context.console;
  std::vector<Finding> findings = check_site(context);
  for (Finding& told : check_running(context)) findings.push_back(std::move(told));
  const bool good = std::none_of(findings.begin(), findings.end(),
                                 [](const Finding& f) { return f.health == Health::Bad; });
  if (json) {
    Json list = Json::array();
    for (const Finding& f : findings)
      list.push_back({{"check", f.check},
                      {"level", std::string(name_of(f.health))},
                      {"found", f.found},
                      {"fix", f.fix}});
    console.line(dump_json(Json{{"ok", good}, {"findings", list}}));
    return good ? kDone : kFailed;
  }
  for (const Finding& f : findings) {
    const Ink ink = f.health == Health::Good   ? Ink::Green
                    : f.health == Health::Note ? Ink::Yellow
                                               : Ink::Red;
    console.line(console.paint(ink, fmt::format("{:<5}", name_of(f.health))) +
                 fmt::format(" {:<16} {}", f.check, printable(f.found)));
    if (f.health != Health::Good && !f.fix.empty())
      console.line(fmt::format("{:<22} fix: {}", "", printable(f.fix)));
  }
  return good ? kDone : kFailed;
}

}  // namespace

Command cmd_doctor() {
  return {"doctor",
          "check the site and say how to mend each finding",
          {"stoker doctor", "stoker doctor --json"},
          [](CLI::App& app, Context& context) -> Action {
            const auto json = std::make_shared<bool>(false);
            app.add_flag("--json", *json, "one JSON document");
            return [&context, json] { return doctor(context, *json); };
          }};
}

}  // namespace stoker::cli
