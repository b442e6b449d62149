// stoker adopt: a RUN.yaml that supervises an existing batch script unchanged, or the job that runs
// one already.
#include "slurm/adopt.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/writers.hpp"
#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "common/os/output.hpp"
#include "common/os/process.hpp"
#include "slurm/client_call.hpp"
#include "slurm/job_detail.hpp"

namespace stoker::cli {
namespace {

constexpr std::size_t kLargestScript = 4u << 20;  // SLURM's own limit, max_script_size
constexpr Duration kPatience = 60s;

struct Options {
  std::string script, job, cluster, output;
  bool force = false;
};

Result<std::string> ask_slurm(const Context& context, const std::string& cluster,
                              std::vector<std::string> argv) {
  const std::string program = argv.front();
  const auto call = slurm::client_call(std::move(argv), context.environment, cluster);
  STOKER_TRY(answer, os::run_command(call, kPatience));
  if (!answer.status.ok()) return fail(slurm::what_it_said(answer), program);
  return answer.out;
}

Result<slurm::AdoptedScript> read_script(const Context& context, const std::string& path) {
  STOKER_TRY(absolute, os::absolute_path(path));
  STOKER_TRY(text, os::read_file(absolute, kLargestScript));
  return slurm::read_batch_script(text, absolute, context.environment);
}

// The script of a job that waits or runs. SLURM keeps the script as it was submitted; its file may
// have changed since, and the next job runs the file.
Result<slurm::AdoptedScript> read_job(const Context& context, const std::string& cluster,
                                      const std::string& job) {
  const bool plain = !job.empty() && job.find_first_not_of("0123456789_") == std::string::npos;
  if (!plain) return fail("no job id", job, "give it as squeue shows it: 123 or 123_4");
  STOKER_TRY(said, ask_slurm(context, cluster, {"scontrol", "show", "job", "-o", job}));
  STOKER_TRY(records, slurm::parse_job_details(said));
  const auto alive = std::find_if(records.begin(), records.end(), [](const auto& record) {
    return !core::is_terminal(record.state);
  });
  if (alive == records.end()) return fail("it has ended: adopt its script instead", "job " + job);
  if (!alive->command.starts_with('/'))
    return fail("it has no batch script", "job " + job, "only sbatch's jobs can be adopted");
  STOKER_TRY(script, read_script(context, alive->command));
  if (script.run != alive->name) {
    script.notes.push_back(fmt::format("the job is called {}, and so is the run", alive->name));
    script.run = alive->name;
  }
  if (!alive->output.empty() && alive->output.find('%') == std::string::npos &&
      std::find(script.logs.begin(), script.logs.end(), alive->output) == script.logs.end())
    script.logs.push_back(alive->output);
  return script;
}

// From now on the job carries a token of the run: stokerd finds it in the queue and takes it for
// its own, and all that it had submitted meanwhile goes.
Status mark(const Context& context, const std::string& cluster, const std::string& job,
            const std::string& run) {
  const auto now = wall_now().time_since_epoch().count();
  const std::string token =
      fmt::format("{}-0-{}", run, hex32(crc32c(fmt::format("{}/{}", job, now))));
  const auto done = ask_slurm(
      context, cluster,
      {"scontrol", "update", "JobId=" + job.substr(0, job.find('_')), "Comment=" + token});
  if (!done) return fail(done.error());
  return ok();
}

int adopt(Context& context, const Options& options) {
  const Console& console = context.console;
  if (options.script.empty() == options.job.empty())
    return console.say("give a script, or --job ID"), kUsage;
  auto script = options.job.empty() ? read_script(context, options.script)
                                    : read_job(context, options.cluster, options.job);
  if (!script) return console.say(script.error().message()), kUsage;
  if (!options.cluster.empty()) script->cluster = options.cluster;
  const std::string yaml = slurm::run_yaml_of(*script);
  const bool shown = options.output.empty() || options.output == "-";
  if (shown) {
    console.out(printable_lines(yaml));
  } else if (!options.force && os::exists(options.output) &&
             os::read_file(options.output, kLargestScript).value_or("") != yaml) {
    console.say(options.output + ": is there already and says something else; --force replaces it");
    return kFailed;
  } else if (const auto written =
                 os::write_output(options.output, yaml, os::Durability::Synced, 0644);
             !written) {
    return console.say(written.error().message()), kFailed;
  }
  if (!options.job.empty())
    if (const auto marked = mark(context, options.cluster, options.job, script->run); !marked)
      return console.say("job " + options.job +
                         " could not be marked as stoker's: " + marked.error().message()),
             kFailed;
  for (const std::string& note : script->notes) console.say("note: " + printable(note));
  warn_of_writers(console, {{script->path, ""}});
  const std::string file = shown ? "RUN.yaml" : options.output;
  console.say(fmt::format("{} supervises {} as run {}; next: stoker check {} && stoker run {}",
                          file,
                          options.job.empty() ? printable(script->path) : "job " + options.job,
                          script->run, file, file));
  return kDone;
}

}  // namespace

Command cmd_adopt() {
  return {"adopt",
          "write a RUN.yaml that supervises an existing batch script unchanged",
          {"stoker adopt tr11.slurm -o tr11.yaml && stoker run tr11.yaml",
           "stoker adopt --job 123456 -o tr11.yaml && stoker run tr11.yaml"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<Options>();
            app.add_option("SCRIPT", options->script, "the script that sbatch is given");
            app.add_option("--job", options->job, "take over this job, and its script after it");
            app.add_option("-M,--cluster", options->cluster,
                           "the SLURM cluster of the job; none: the script's -M, or SLURM_CONF's");
            app.add_option("-o,--output", options->output, "where to write; none: standard output");
            app.add_flag("--force", options->force, "replace the file");
            return [&context, options] { return adopt(context, *options); };
          }};
}

}  // namespace stoker::cli
