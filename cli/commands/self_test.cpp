// stoker self-test: proves on this machine that the programs start, that the kernel has what they
// need, and that a run of two seconds begins, is followed and finishes. All of it happens in one
// temporary folder, with a daemon and an embedded scheduler of its own.
#include "common/os/self.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>

#include "cli/commands/all.hpp"
#include "common/json.hpp"
#include "common/os/files.hpp"
#include "common/os/private_folder.hpp"
#include "common/os/process.hpp"

namespace stoker::cli {
namespace {

constexpr Duration kAnswer = 30s, kRun = 90s;
constexpr const char* kPrograms[] = {"stoker", "stokerd", "stoker-agent"};
// What a small training prints, in the form that every log reader here knows.
constexpr const char* kTraining =
    "i=0\n"
    "while [ $i -lt 10 ]; do\n"
    "  i=$((i+1))\n"
    "  echo \" iteration $i/ 10 | lm loss: 2.0 | elapsed time per iteration (ms): 200.0 |\"\n"
    "  sleep 0.2\n"
    "done\n";

struct Test {
  const Context& context;
  std::string folder;  // temporary
  bool good = true;

  void tell(const std::string& what, const Status& outcome, const std::string& detail) {
    good = good && outcome;
    context.console.line(fmt::format("  {} {:<13} {}", outcome ? "ok    " : "FAILED", what,
                                     outcome ? detail : printable(outcome.error().message())));
  }
  [[nodiscard]] Result<os::CommandOutput> start(std::vector<std::string> argv,
                                                Duration limit) const {
    os::SpawnOptions options;
    options.argv = std::move(argv);
    options.environment = context.environment;
    options.working_directory = folder;
    return os::run_command(options, limit, 1u << 20);
  }
};

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

Status same_version(const Test& test, const std::string& name) {
  const std::string path = os::own_program(name), wanted = std::string("stoker ") + STOKER_VERSION;
  STOKER_TRY(said, test.start({path, "--version"}, kAnswer));
  if (!said.status.ok())
    return fail(fmt::format("{}: {}", said.status.text(), last_line(said.err)), path);
  if (said.out.find(STOKER_VERSION) != std::string::npos) return ok();
  return fail(fmt::format("is \"{}\" beside {}; unpack the whole bundle of one version",
                          last_line(said.out), wanted),
              path);
}

Status has_pidfds() {
  const auto self = os::identify(::getpid());
  if (self && os::open_process(*self)) return ok();
  return fail("this kernel has no pidfds; Linux 5.3 or newer is needed", "kernel");
}

std::string yaml_of(const std::string& folder) {
  const auto quoted = [](const std::string& text) { return Json(text).dump(); };
  return fmt::format(
      "run: self-test\ndirectory: {}\nscheduler: {{kind: local, nodes: 1}}\n"
      "train: {{command: [/bin/sh, {}], ranks_per_node: 1}}\n",
      quoted(folder + "/run"), quoted(folder + "/train.sh"));
}

// The daemon as `stoker run --foreground` starts it: exit 0 says that the run finished.
Status local_run(const Test& test) {
  const std::string& folder = test.folder;
  STOKER_TRY_STATUS(os::replace_file(folder + "/train.sh", kTraining, os::Durability::Cached));
  STOKER_TRY_STATUS(
      os::replace_file(folder + "/run.yaml", yaml_of(folder), os::Durability::Cached));
  STOKER_TRY(said, test.start({os::own_program("stokerd"), "--state", folder + "/state", "--run",
                               folder + "/run.yaml", "--until-end", "--listen", "none"},
                              kRun));
  if (!said.status.ok())
    return fail(fmt::format("{}: {}", said.status.text(), last_line(said.err)), "stokerd");
  STOKER_TRY(text, os::read_file(folder + "/run/status.json"));
  STOKER_TRY(status, parse_json(text, "status.json"));
  const std::uint64_t iteration =
      status.is_object() && status.contains("iteration") && status["iteration"].is_number_unsigned()
          ? status["iteration"].get<std::uint64_t>()
          : 0;
  if (iteration == 10) return ok();
  return fail(fmt::format("it ended at iteration {} of 10", iteration), "run");
}

Result<std::string> temporary_folder(const Context& context, const std::string& chosen) {
  const auto found = context.environment.find("TMPDIR");
  const std::string below = !chosen.empty() ? chosen
                            : found != context.environment.end() && !found->second.empty()
                                ? found->second
                                : "/tmp";
  STOKER_TRY(absolute, os::absolute_path(below));
  auto made = os::make_lasting_folder(absolute + "/stoker-self-test-");
  if (made) return made->path;
  Error error = made.error();
  error.hint = "name a folder that only you can write with --directory";
  return fail(error);
}

int self_test(const Context& context, const std::string& directory) {
  const Console& console = context.console;
  const auto folder = temporary_folder(context, directory);
  if (!folder) return console.say(folder.error().message()), kFailed;
  const std::string own = os::own_program("stoker");
  console.line(fmt::format("stoker {} in {}", STOKER_VERSION,
                           own.substr(0, std::max<std::size_t>(1, own.rfind('/')))));
  Test test{context, *folder};
  for (const char* program : kPrograms)
    test.tell(program, same_version(test, program), STOKER_VERSION);
  test.tell("kernel", has_pidfds(), "pidfds");
  if (test.good)
    test.tell("local run", local_run(test),
              "submitted, started by the agent, followed to iteration 10 of 10, finished");
  if (!test.good) {
    console.say("the self-test failed; what it left is in " + *folder);
    return kFailed;
  }
  std::error_code error;
  std::filesystem::remove_all(*folder, error);
  if (error) console.say(*folder + " cannot be removed: " + error.message());
  console.line("all of it works here");
  return kDone;
}

}  // namespace

Command cmd_self_test() {
  return {"self-test",
          "prove in seconds that stoker works on this machine, with a local run of its own",
          {"stoker self-test", "stoker self-test --directory /scratch/$USER"},
          [](CLI::App& app, Context& context) -> Action {
            const auto directory = std::make_shared<std::string>();
            app.add_option("--directory", *directory,
                           "where its temporary folder is made (default $TMPDIR, else /tmp)")
                ->type_name("DIR");
            return [&context, directory] { return self_test(context, *directory); };
          }};
}

}  // namespace stoker::cli
