// stoker init: a commented RUN.yaml from what a script or a command says, or from answers.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <unistd.h>

#include "cli/commands/all.hpp"
#include "cli/init/detect.hpp"
#include "cli/init/questions.hpp"
#include "cli/read/run_file.hpp"
#include "cli/show/documents.hpp"
#include "common/os/files.hpp"
#include "common/os/output.hpp"

namespace stoker::cli {
namespace {

struct InitOptions {
  std::vector<std::string> words;  // SCRIPT, or a command
  std::vector<std::string> logs;
  std::string output = "RUN.yaml", scheduler;
  bool force = false, json = false;
};

Result<init::Draft> make_draft(const Context& context, const init::Host& host,
                               const InitOptions& options) {
  const auto& words = options.words;
  const bool script =
      words.size() == 1 && os::exists(configs::path_from(host.folder, words.front()));
  if (script) return init::draft_of_script(host, words.front());
  if (words.size() == 1 && words.front().find_first_of("/.") != std::string::npos)
    return fail("there is no such script", words.front());
  if (!words.empty()) return init::draft_of_command(host, words);
  init::Questions questions(context.console, init::standard_input(), ::isatty(STDIN_FILENO) == 1);
  STOKER_TRY(draft, init::ask_for_training(questions, host));
  STOKER_TRY_STATUS(init::ask_for_values(questions, host, draft));
  return std::move(draft);
}

// The logs that are there to learn the form of iteration lines from.
std::vector<std::string> logs_of(const init::Host& host, const InitOptions& options,
                                 const std::string& text) {
  std::vector<std::string> logs;
  for (const std::string& log : options.logs) logs.push_back(configs::path_from(host.folder, log));
  if (!logs.empty()) return logs;
  return configs::read_run_config(text, {}).policy.watch.logs;
}

// RUN.yaml, as `stoker check` accepts it.
Result<std::string> make_yaml(const Context& context, const init::Host& host,
                              const InitOptions& options, init::Draft& draft,
                              Knowledge& knowledge) {
  add_progress(draft, logs_of(host, options, draft_yaml(draft, {})));
  const std::string path =
      configs::path_from(host.folder, options.output == "-" ? "RUN.yaml" : options.output);
  const std::string text = draft_yaml(draft, {});
  const configs::CheckedRun run = check_run_text(context, text, path);
  if (show_errors(context.console, run.file.errors) != kDone)
    return fail("what was found is no configuration that can run; nothing is written", path);
  knowledge = knowledge_of(run, text);
  return draft_yaml(draft, knowledge.not_known);
}

Status write(const InitOptions& options, const std::string& yaml) {
  if (options.force) return os::write_output(options.output, yaml, os::Durability::Synced, 0644);
  STOKER_TRY(made, os::claim_file(options.output, yaml, 0644));
  if (!made)
    return fail("is there already; nothing is written", options.output, "--force replaces it");
  return ok();
}

InitDocument document_of(const init::Draft& draft, const Knowledge& knowledge,
                         const std::string& file) {
  InitDocument document{{}, draft.source, draft.path, draft.launchers, draft.entries, draft.notes,
                        {}};
  if (!file.empty()) document.file = file;
  document.not_known = {knowledge.not_known.begin(), knowledge.not_known.end()};
  return document;
}

void show(const Console& console, const init::Draft& draft, const std::string& file) {
  for (const init::Entry& entry : draft.entries)
    console.say(fmt::format("{} {}: {} ({})", name_of(entry.how), entry.key, printable(entry.value),
                            printable(entry.reason)));
  for (const std::string& note : draft.notes) console.say("note: " + printable(note));
  if (!draft.launchers.empty())
    console.say(fmt::format("launcher: {}", fmt::join(draft.launchers, ", then ")));
  if (!file.empty())
    console.say(
        fmt::format("wrote {0}; next: stoker check {0} && stoker run {0}", printable(file)));
}

int make_file(Context& context, const InitOptions& options) {
  const Console& console = context.console;
  const bool shown = options.output == "-";
  if (!shown && !options.force && os::exists(options.output))
    return console.say(printable(options.output) +
                       ": is there already; nothing is written; --force replaces it"),
           kFailed;
  const init::Host host = init::this_host(context.environment);
  auto draft = make_draft(context, host, options);
  if (!draft) return console.say(draft.error().message()), kUsage;
  if (!options.scheduler.empty() && draft->source != "batch_script")
    draft->put("scheduler.kind", options.scheduler, init::How::Answered, "--scheduler");
  Knowledge knowledge;
  const auto yaml = make_yaml(context, host, options, *draft, knowledge);
  if (!yaml) return console.say(yaml.error().message()), kUsage;
  if (!shown)
    if (const Status written = write(options, *yaml); !written)
      return console.say(written.error().message()), kFailed;
  const std::string file = shown ? "" : options.output;
  if (options.json)
    console.line(to_json_text(document_of(*draft, knowledge, file)));
  else if (shown)
    console.out(printable_lines(*yaml));
  if (!options.json) show(console, *draft, file);
  return kDone;
}

}  // namespace

Command cmd_init() {
  return {"init",
          "detect or ask what a training is, and write a commented RUN.yaml",
          {"stoker init train.slurm -o run.yaml && stoker check run.yaml",
           "stoker init -o run.yaml -- torchrun --nproc_per_node=8 train.py --save checkpoints",
           "stoker init"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<InitOptions>();
            app.add_option("SCRIPT", options->words,
                           "a batch script, shell script or Python file; a command behind --; "
                           "none: it asks");
            app.add_option("-o,--output", options->output, "where to write; -: standard output")
                ->capture_default_str();
            app.add_option("--log", options->logs,
                           "a log of an earlier run, to learn its iteration lines from")
                ->type_size(1)
                ->allow_extra_args(false);
            app.add_option("--scheduler", options->scheduler,
                           "local or slurm; none: slurm where sbatch is in PATH")
                ->check(CLI::IsMember({"local", "slurm"}));
            app.add_flag("--force", options->force, "replace the file");
            app.add_flag("--json", options->json, "what was found, and where: one JSON document");
            return [&context, options] { return make_file(context, *options); };
          }};
}

}  // namespace stoker::cli
