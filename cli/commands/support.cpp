// stoker support RUN -o FILE.tar.zst: everything that a bug report needs, without secrets.
#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/event_file.hpp"
#include "cli/read/published.hpp"
#include "cli/read/run_file.hpp"
#include "cli/support/collect.hpp"
#include "common/os/files.hpp"

namespace stoker::cli {
namespace {

struct SupportOptions {
  std::string run, output;
  std::uint64_t most_mib = 64;
  bool dry_run = false, json = false;
};

// The orders and RUN.yaml name the secrets; what was published has them hidden already.
std::vector<std::string> known_secrets(Context& context, const wire::SiteRun& run) {
  auto file = EventFile::open(run.directory);
  if (!file) return {};
  std::string config;
  (void)file->read(std::nullopt, 0, [&](const wire::PublishedEvent& e) {
    if (e.kind == "run_added" || e.kind == "policy_changed")
      if (const auto policy = e.event.find("policy"); policy != e.event.end())
        config = policy->value("config_path", config);
  });
  std::vector<std::string> secrets = support::secrets_of_orders(run.directory);
  if (config.empty() || !os::exists(config)) return secrets;
  if (const auto read = read_run_file(context, config))
    for (std::string& secret : support::secrets_of(Json(read->file.policy)))
      secrets.push_back(std::move(secret));
  return secrets;
}

void say_contents(const Console& console, const support::Bundle& bundle, bool json) {
  Json files = Json::array();
  for (const support::Entry& entry : bundle.entries)
    if (json)
      files.push_back({{"name", entry.name}, {"bytes", entry.text.size()}});
    else
      console.line(fmt::format("{:>10}  {}", entry.text.size(), printable(entry.name)));
  if (json)
    return console.line(dump_json({{"files", std::move(files)},
                                   {"left_out", bundle.left_out},
                                   {"secrets_hidden", bundle.hidden}}));
  for (const std::string& what : bundle.left_out) console.say("left out: " + what);
}

int support_bundle(Context& context, const SupportOptions& options) {
  const Console& console = context.console;
  (void)note_daemon(context);
  const auto run =
      options.run.empty() ? only_run(context.state) : find_run(context.state, options.run);
  if (!run) return console.say(run.error().message()), kFailed;
  const WallTime now = wall_now();
  support::Plan plan{*run, context.state, options.most_mib << 20, context.environment};
  const auto bundle = support::collect(plan, support::Redactor(known_secrets(context, *run)), now);
  if (options.dry_run) return say_contents(console, bundle, options.json), kDone;
  std::string stamp = format_rfc3339(now).substr(0, 19);
  std::erase(stamp, ':');
  const std::string folder = fmt::format("stoker-{}-{}", run->run, stamp);
  const std::string path = options.output.empty() ? folder + ".tar.zst" : options.output;
  if (const auto written = support::write_archive(path, folder, bundle.entries, now); !written)
    return console.say(written.error().message()), kFailed;
  if (options.json) say_contents(console, bundle, true);
  console.say(fmt::format(
      "{}: {} files, {} places hidden that held or resembled a secret; look into it before you "
      "pass it on: tar --zstd -tvf {}",
      path, bundle.entries.size(), bundle.hidden, path));
  return kDone;
}

}  // namespace

Command cmd_support() {
  return {"support",
          "everything that a bug report needs in one archive, secrets removed",
          {"stoker support hello --dry-run", "stoker support hello -o /tmp/hello.tar.zst"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<SupportOptions>();
            app.add_option("RUN", options->run, "name of a run or a run directory");
            app.add_option("-o,--output", options->output,
                           "the archive; none: stoker-RUN-TIME.tar.zst here");
            app.add_option("--most", options->most_mib, "MiB of text at most; default 64")
                ->check(CLI::Range(1, 1024));
            app.add_flag("--dry-run", options->dry_run, "say what would go in, and its size");
            app.add_flag("--json", options->json, "the contents as one JSON document");
            return [&context, options] { return support_bundle(context, *options); };
          }};
}

}  // namespace stoker::cli
