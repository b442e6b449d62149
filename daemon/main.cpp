// stokerd: the daemon in the foreground. Exit status: 0 done, 1 failed (--once: could not observe
// everything), 2 a run needs a person (--once), 3 held and 4 stopped (--until-end), 64 usage.
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <string>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "common/manual_page.hpp"
#include "common/os/descriptors.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/self.hpp"
#include "common/os/state_directory.hpp"
#include "common/printable.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/loop/log.hpp"
#include "embedded/admin.hpp"
#include "embedded/node_process.hpp"
#include "embedded/scheduler_process.hpp"

namespace {

using namespace stoker;

constexpr int kUsage = 64;

ManualHead manual() {
  return {"stokerd",
          STOKER_VERSION,
          "the daemon of stoker: keeps training runs alive",
          "Observes the scheduler, the agents of each run and its files; decides, journals and "
          "acts: it submits, restarts, excludes nodes and alerts people. It runs in the foreground "
          "as an ordinary user, one for each state directory. SIGTERM ends it; trainings go on "
          "without it, and the next stokerd takes them up again.",
          {{"stoker", 1}, {"stoker-agent", 1}, {"stoker-web", 1}, {"stoker-run", 5}}};
}

struct Arguments {
  std::string state;
  daemon::DaemonOptions options;
  bool audit = false;
  std::string scheduler_folder, node_path;
  std::vector<std::string> admin;
};

int failed(const Error& error) {
  tell_stderr("stokerd: " + error.message());
  return 1;
}

// Repairs nothing: damage is what an audit is asked for.
int audit(const std::string& state) {
  std::string file_system;
  const auto network = daemon::state_is_on_network(state, file_system);
  if (!network) return failed(network.error());
  auto possession = daemon::Possession::take({state, *network, 30s, {}});
  if (!possession) return failed(possession.error());
  const std::string path = (*possession)->journal_path();
  if (!os::exists(path)) return failed(Error{"there is no journal", path, ""});
  auto journal = daemon::SqliteJournal::open({path, *network, {}});
  if (!journal) return failed(journal.error());
  const auto audited = core::audit_journal(**journal);
  if (!audited) return failed(audited.error());
  std::printf("%llu rows, replayed to the same state\n",
              static_cast<unsigned long long>((*journal)->last_sequence().value));
  return 0;
}

// Nothing is left to do, but a thread may compile for a long time, or sleep in a file system that
// does not answer: what it uses stays until the end.
bool is_left_behind() {
  return daemon::LogKnowledge::left_behind() || daemon::MountShift::left_behind() ||
         daemon::EffectPool::left_behind() || daemon::Errands::left_behind();
}

int serve(const daemon::DaemonOptions& options) {
  auto made = daemon::Daemon::open(options);
  if (!made) return failed(made.error());
  const int status = static_cast<int>((*made)->run());
  (*made)->stop();
  daemon::flush_log();
  if (is_left_behind()) ::_exit(status);
  made->reset();
  daemon::flush_log();
  if (is_left_behind() || lanes_running > 0) ::_exit(status);
  return status;
}

void add_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--state", arguments.state,
                 "state directory (default $STOKER_STATE, else $XDG_STATE_HOME/stoker, else "
                 "~/.local/state/stoker)");
  auto* listen = app.add_option(
      "--listen", arguments.options.listen,
      "status page, /metrics, /healthz, /api/v1: 127.0.0.1:9470, the path of a unix "
      "socket, or none (default <state>/web.sock; `stoker web` prints how to open it)");
  auto* key = app.add_option("--tls-key", arguments.options.tls.key,
                             "key of --tls-cert: PEM without a passphrase, mode 0600");
  auto* certificate = app.add_option("--tls-cert", arguments.options.tls.certificate,
                                     "certificate of the page, PEM with its chain: https, also "
                                     "beyond loopback; read again when it is renewed")
                          ->needs(listen)
                          ->needs(key);
  key->needs(certificate);
  app.add_flag("--insecure", arguments.options.insecure,
               "let --listen open a port beyond loopback without TLS: its token and pages travel "
               "in clear text")
      ->excludes(certificate);
  auto* once = app.add_flag("--once", arguments.options.once,
                            "one pass, then exit: 0 fine, 1 could not observe everything, 2 a run "
                            "needs a person");
  auto* run = app.add_option("--run", arguments.options.run_file,
                             "RUN.yaml to put under supervision at the start");
  app.add_option("--run-text", arguments.options.run_text,
                 "descriptor of its text, as a person has confirmed it; `stoker run --foreground`")
      ->needs(run)
      ->group("");
  app.add_flag("--until-end", arguments.options.until_end,
               "until that run ends: 0 finished, 3 held, 4 stopped")
      ->needs(run)
      ->excludes(once);
  app.add_option_function<double>(
         "--slurm-pace",
         [&arguments](double seconds) {
           arguments.options.slurm_pace =
               std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
         },
         "shortest time in seconds between two looks at SLURM's queue, at least 15 on a cluster "
         "that others use (default 15)")
      ->check(CLI::Range(0.2, 3600.0));
  app.add_flag("--audit", arguments.audit,
               "replay the journal from its first row and compare; 0 the same, 1 not");
  app.set_version_flag("--version", "stokerd " STOKER_VERSION);
  app.add_flag_callback("--manual",
                        [&app] {
                          std::fputs(manual_page(app, manual()).c_str(), stdout);
                          throw CLI::Success();
                        })
      ->group("");  // for the packages
  app.footer(
      "Examples:\n"
      "  stokerd                              # in the foreground; SIGTERM leaves trainings "
      "running\n"
      "  stokerd --once                       # from cron, or between jobs\n"
      "  stokerd --listen 127.0.0.1:9470      # with the page and /metrics\n"
      "  stokerd --listen 0.0.0.0:9470 --tls-cert host.pem --tls-key host.key\n"
      "  stokerd --run RUN.yaml --until-end   # one run, until it is over\n"
      "Exit status: 0 done, 1 failed, 64 usage; with --once 1 could not observe everything and 2 "
      "a\n"
      "  run needs a person; with --until-end 3 held and 4 stopped");
}

// Empty: go on as the daemon.
std::optional<int> hidden(const CLI::App& app, const Arguments& arguments,
                          const std::string& program) {
  if (app.got_subcommand("local-scheduler")) {
    embedded::SchedulerProcessOptions options;
    options.folder = arguments.scheduler_folder;
    options.node_command = {program, "local-node"};
    return embedded::run_scheduler_process(options);
  }
  if (app.got_subcommand("local-node")) return embedded::run_node_process(arguments.node_path);
  if (!app.got_subcommand("local-admin")) return std::nullopt;
  std::string out, err;
  const int status = embedded::run_admin(embedded::local_options(arguments.state, program),
                                         arguments.admin, out, err);
  std::fputs(printable_lines(out).c_str(), stdout);
  std::fputs(printable_lines(err).c_str(), stderr);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  ::mallopt(M_ARENA_MAX, 2);  // a thread of ours needs no arena of its own
  CLI::App app("stokerd: keeps training runs alive", "stokerd");
  Arguments arguments;
  arguments.state = os::default_state();
  add_options(app, arguments);
  auto* scheduler = app.add_subcommand("local-scheduler")->group("");
  scheduler->add_option("--folder", arguments.scheduler_folder)->required();
  auto* node = app.add_subcommand("local-node")->group("");
  node->add_option("--path", arguments.node_path)->required();
  auto* admin = app.add_subcommand("local-admin")->group("")->prefix_command();
  admin->add_option("--state", arguments.state);
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (arguments.state.empty()) {
    std::fputs("stokerd: the state directory has no name; give one with --state\n", stderr);
    return kUsage;
  }
  arguments.admin = admin->remaining();
  const std::string program = os::own_program("stokerd");
  if (const auto status = hidden(app, arguments, program)) return *status;
  os::raise_descriptor_limit();
  os::make_private();  // what is for others is published with its mode
  arguments.options.state_directory = arguments.state;
  arguments.options.program = program;
  return arguments.audit ? audit(arguments.state) : serve(arguments.options);
}
