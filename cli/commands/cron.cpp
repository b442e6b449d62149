// stoker cron FILE: the commands of a crontab that were due, for clusters without cron.
#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "common/os/files.hpp"
#include "slurm/crontab.hpp"

namespace stoker::cli {
namespace {

struct CronOptions {
  std::string file;
  std::int64_t after = 0, until = 0;
};

int cron(Context& context, const CronOptions& options) {
  const auto text = os::read_file(options.file, 1u << 20);
  if (!text) return context.console.say(text.error().message()), kFailed;
  const std::int64_t until = options.until != 0 ? options.until : std::time(nullptr);
  const auto due =
      slurm::due_commands(*text, options.after != 0 ? options.after : until - 60, until);
  if (!due) {
    context.console.say(options.file + ": " + due.error().message());
    return kFailed;
  }
  for (const std::string& command : *due) context.console.line(command);
  return kDone;
}

}  // namespace

Command cmd_cron() {
  return {"cron",
          "the commands of a crontab that were due, one a line (deploy/cron-emulation)",
          {"stoker cron ~/.stoker-cron/crontab --after 1700000000 --until 1700003600"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<CronOptions>();
            app.add_option("FILE", options->file, "five-field lines as crontab(5) of Debian")
                ->required();
            app.add_option("--after", options->after,
                           "seconds since the epoch, exclusive (default: a minute ago)");
            app.add_option("--until", options->until, "inclusive (default: now)");
            return [&context, options] { return cron(context, *options); };
          }};
}

}  // namespace stoker::cli
