// What keeps stokerd running for users without root.
#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

#include "cli/doctor/site_checks.hpp"
#include "cli/read/daemon_client.hpp"
#include "common/os/files.hpp"
#include "common/os/self.hpp"
#include "common/shell_word.hpp"
#include "configs/schema/run_checks.hpp"

namespace stoker::cli {
namespace {

constexpr Duration kPatience = 5s;

// cron(8) takes a line as it stands but for '%', which it makes a newline.
std::string for_crontab(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '%') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

Finding judge_keeper(bool user_manager, const std::optional<os::CommandOutput>& crontab,
                     const std::string& start) {
  if (user_manager)
    return {"keeper", Health::Good,
            "systemd runs here for this user: deploy/stokerd.service says how", ""};
  // "no crontab for alice" also ends with 1; a user who may not use it gets an error.
  const bool allowed =
      crontab && (crontab->status.ok() || crontab->err.find("no crontab for") != std::string::npos);
  if (allowed && crontab->out.find("stokerd") != std::string::npos)
    return {"keeper", Health::Good, "the crontab starts stokerd", ""};
  if (allowed)
    return {"keeper", Health::Note, "nothing starts stokerd again after a reboot of this host",
            fmt::format("crontab -e, and two lines: @reboot {0}   and   */5 * * * * {0} --once",
                        for_crontab(start))};
  return {"keeper", Health::Note,
          crontab ? "neither systemd for this user, nor may it use crontab"
                  : "neither systemd for this user nor crontab is here",
          "deploy/cron-emulation/stoker-cron.slurm keeps stokerd in a job of its own"};
}

Finding check_keeper(const Context& context) {
  const auto runtime = context.environment.find("XDG_RUNTIME_DIR");
  const std::string folder = runtime != context.environment.end()
                                 ? runtime->second
                                 : fmt::format("/run/user/{}", ::getuid());
  std::optional<os::CommandOutput> crontab;
  const auto path = context.environment.find("PATH");
  if (path != context.environment.end() && configs::find_program("crontab", path->second)) {
    os::SpawnOptions call;
    call.argv = {"crontab", "-l"};
    call.environment = context.environment;
    call.environment["LC_ALL"] = "C";
    if (auto said = os::run_command(call, kPatience)) crontab = *std::move(said);
  }
  const std::string start = fmt::format("{} --state {}", shell_word(os::own_program("stokerd")),
                                        shell_word(context.state));
  return judge_keeper(os::exists(folder + "/systemd/private"), crontab, start);
}

}  // namespace stoker::cli
