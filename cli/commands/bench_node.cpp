// stoker bench-node: what this node, or every node of an allocation, does in a test of a minute:
// processors, memory, disk, and each GPU beside the others. One that stands out is named with its
// reading, the median of the others and the limit.
#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/read/published.hpp"
#include "cli/show/documents.hpp"
#include "common/hostlist.hpp"
#include "common/os/process.hpp"
#include "common/os/self.hpp"
#include "recipe/gpu_bench.hpp"
#include "slurm/client_call.hpp"

namespace stoker::cli {
namespace {

constexpr Duration kBesideBurn = 3min;  // start, processors, memory, disk
constexpr Duration kQuestion = 20s;
constexpr Duration kLongestBurn = 1h;
constexpr std::size_t kAnswersKept = 64u << 20;

struct BenchNodeOptions {
  std::string burn = "60s", directory = ".";
  std::uint32_t job = 0;
  bool gpus = false, json = false;
};

std::vector<std::string> agent_words(const BenchNodeOptions& options, Duration burn) {
  std::vector<std::string> words{
      os::own_program("stoker-agent"),
      "bench",
      "--report",
      "--burn",
      std::to_string(std::chrono::ceil<std::chrono::seconds>(burn).count()),
      "--directory",
      options.directory};
  if (options.gpus) words.emplace_back("--gpus");
  return words;
}

Result<std::vector<NodeName>> nodes_of_job(const Context& context, std::uint32_t job) {
  const std::string object = fmt::format("job {}", job);
  const auto call = slurm::client_call(
      {"squeue", "--noheader", fmt::format("--jobs={}", job), "--states=RUNNING", "--format=%N"},
      context.environment);
  STOKER_TRY(answer, os::run_command(call, kQuestion, 1u << 20));
  if (!answer.status.ok()) return fail(slurm::what_it_said(answer), object);
  std::string list = answer.out.substr(0, answer.out.find('\n'));
  while (list.ends_with(' ')) list.pop_back();
  if (list.empty()) return fail("squeue does not show it running", object);
  STOKER_TRY(nodes, expand_hostlist(list));
  if (nodes.empty()) return fail("squeue names no nodes of it", object);
  return nodes;
}

// The run whose ranks are in this job, as the daemon published it; "" = none is known.
std::string trains_in(const Context& context, std::uint32_t job) {
  const auto runs = published_runs(context.state);
  if (!runs) return "";
  for (const wire::SiteRun& run : *runs) {
    const auto status = read_status(run, Reach::Answered);
    if (!status || status->job.substr(0, status->job.find('_')) != std::to_string(job)) continue;
    if (status->state != "held" && status->state != "finished" && status->state != "stopped")
      return run.run;
  }
  return "";
}

// A step of its own on each node of the job.
std::vector<std::string> in_job(const BenchNodeOptions& options, const std::vector<NodeName>& nodes,
                                std::vector<std::string> agent) {
  const std::string count = std::to_string(nodes.size());
  std::vector<std::string> argv{"srun",
                                "--overlap",
                                fmt::format("--jobid={}", options.job),
                                "--nodes=" + count,
                                "--ntasks=" + count,
                                "--ntasks-per-node=1",
                                "--mem=0",
                                "--export=ALL",
                                "--job-name=stoker-bench",
                                "--kill-on-bad-exit=0"};
  argv.insert(argv.end(), agent.begin(), agent.end());
  return argv;
}

// Each line is a report; what else a node prints is passed over.
std::vector<wire::BenchReport> reports_of(const std::string& text) {
  std::vector<wire::BenchReport> reports;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    auto report = from_json_text<wire::BenchReport>(std::string_view(text).substr(at, end - at),
                                                    "stoker-agent bench");
    if (report && !report->node.empty()) reports.push_back(std::move(*report));
    at = end + 1;
  }
  std::sort(reports.begin(), reports.end(),
            [](const auto& a, const auto& b) { return a.node < b.node; });
  return reports;
}

BenchDocument judge(std::vector<wire::BenchReport> reports, const std::vector<NodeName>& asked) {
  std::map<NodeName, recipe::NodeFigures> figures;
  std::map<NodeName, std::vector<wire::GpuFigures>> gpus;
  for (const wire::BenchReport& report : reports) {
    figures[report.node] = report.figures;
    gpus[report.node] = report.gpus;
  }
  BenchDocument document;
  for (const recipe::PoorFigure& p : recipe::judge_bench(asked, figures))
    if (!p.figure.empty())  // without an answer: below
      document.poor.push_back(
          {p.node, "", p.figure, p.value, p.usual, p.limit, recipe::bench_text(p)});
  for (const recipe::PoorGpu& p : recipe::judge_gpus(asked, recipe::gpu_readings(gpus)))
    document.poor.push_back(
        {p.node, p.pci, p.figure, p.value, p.usual, p.limit, recipe::bench_text(p)});
  for (const NodeName& node : asked)
    if (!figures.contains(node)) document.silent.push_back(node);
  document.ok = document.poor.empty() && document.silent.empty();
  document.nodes = std::move(reports);
  return document;
}

std::string figures_text(const std::map<std::string, double>& figures) {
  std::string text;
  for (const auto& [name, value] : figures)
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name, value);
  return text;
}

void show(const Console& console, const BenchDocument& document) {
  for (const wire::BenchReport& report : document.nodes) {
    const std::string node = printable(report.node.text);
    if (!report.figures.empty())
      console.line(fmt::format("{}: {}", node, printable(figures_text(report.figures))));
    for (const wire::GpuFigures& gpu : report.gpus)
      console.line(fmt::format("{}: GPU {} ({}): {}{}{}", node, printable(gpu.gpu.pci),
                               printable(gpu.model), printable(figures_text(gpu.figures)),
                               gpu.note.empty() ? "" : "; not measured: ", printable(gpu.note)));
    if (!report.note.empty())
      console.line(fmt::format("{}: no GPU was tested: {}", node, printable(report.note)));
  }
  for (const PoorNode& poor : document.poor)
    console.line(console.paint(Ink::Red, "bad") +
                 fmt::format(" {} {}", printable(poor.node.text), printable(poor.text)));
  for (const NodeName& node : document.silent)
    console.line(console.paint(Ink::Yellow, "no answer") +
                 fmt::format(" from {}", printable(node.text)));
  if (!document.ok) return;
  console.line(console.paint(Ink::Green, "good") + " no node and no GPU stands out");
  if (document.nodes.size() <= recipe::kLeastPeers)
    console.line("     nodes are compared with each other from three on, GPUs of a kind too");
}

int bench(const Context& context, const BenchNodeOptions& options) {
  const Console& console = context.console;
  const auto burn = parse_duration(options.burn);
  if (!burn || *burn < 1s || *burn > kLongestBurn)
    return console.say("bench-node: --burn takes 1s to 1h, as in --burn 60s"), kUsage;
  std::vector<std::string> argv = agent_words(options, *burn);
  std::vector<NodeName> asked;
  if (options.job != 0) {
    if (const std::string run = trains_in(context, options.job); !run.empty())
      return console.say(fmt::format(
                 "bench-node: job {} carries the ranks of {}: a test would take their GPUs; stop "
                 "the run first, or test the nodes in a job of their own",
                 options.job, run)),
             kUsage;
    auto nodes = nodes_of_job(context, options.job);
    if (!nodes) return console.say("bench-node: " + nodes.error().message()), kFailed;
    asked = std::move(*nodes);
    argv = in_job(options, asked, std::move(argv));
  }
  os::SpawnOptions call;
  if (options.job != 0) {
    call = slurm::client_call(std::move(argv), context.environment);
  } else {
    call.argv = std::move(argv);
    call.environment = context.environment;
  }
  const auto answer = os::run_command(call, *burn + kBesideBurn, kAnswersKept);
  if (!answer) return console.say("bench-node: " + answer.error().message()), kFailed;
  auto reports = reports_of(answer->out);
  if (reports.empty())
    return console.say("bench-node: no node reports: " + slurm::what_it_said(*answer)), kFailed;
  if (asked.empty()) asked = {reports.front().node};
  const BenchDocument document = judge(std::move(reports), asked);
  if (options.json)
    console.line(to_json_text(document));
  else
    show(console, document);
  return document.ok ? kDone : kFailed;
}

}  // namespace

Command cmd_bench_node() {
  return {"bench-node",
          "test this node, or all nodes of an allocation, and name what stands out",
          {"stoker bench-node", "stoker bench-node --burn 5min --gpus",
           "stoker bench-node --job $SLURM_JOB_ID --json"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<BenchNodeOptions>();
            app.add_option("--job", options->job,
                           "every node of this running SLURM job, all at once, by srun; not one "
                           "that trains: the test takes its GPUs for a minute");
            app.add_option("--burn", options->burn, "how long the GPUs compute (60s)");
            app.add_option("--directory", options->directory, "where the disk is measured");
            app.add_flag("--gpus", options->gpus, "only the GPUs");
            app.add_flag("--json", options->json, "one JSON document");
            return [options, &context] { return bench(context, *options); };
          }};
}

}  // namespace stoker::cli
