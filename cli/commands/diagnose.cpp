// stoker diagnose FILE...: the first cause of a failed run, from its logs alone; offline.
#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/diagnosis/detector.hpp"
#include "cli/diagnosis/diagnosis_html.hpp"
#include "cli/diagnosis/diagnosis_page.hpp"
#include "cli/read/log_inputs.hpp"
#include "common/os/output.hpp"
#include "diagnose/input/scan_files.hpp"

namespace stoker::cli {
namespace {

struct DiagnoseOptions {
  std::vector<std::string> files, kernel_logs, signatures;
  std::string html;      // where to write the page, "" = nowhere
  unsigned threads = 0;  // 0: one a core
  bool json = false;
};

int diagnose_logs(Context& context, const DiagnoseOptions& options) {
  Console& console = context.console;
  LogInputs inputs;
  add_log_inputs(options.files, false, inputs);
  add_log_inputs(options.kernel_logs, true, inputs);
  for (const auto& error : inputs.errors) console.say(printable(error));
  if (inputs.files.empty()) return kFailed;
  const auto detector = make_detector(context, options.signatures);
  if (!detector) return console.say(detector.error().message()), kUsage;

  std::vector<diagnose::ScanInput> wanted;
  wanted.reserve(inputs.files.size());
  for (auto& input : inputs.files)
    wanted.push_back({std::move(input.path), input.kernel_log, input.links});
  const auto scanned = diagnose::scan_files(*detector, std::move(wanted), options.threads);
  for (const auto& error : scanned.errors) console.say(printable(error.message()));
  if (scanned.logs.empty()) return kFailed;

  auto diagnosis = diagnose::find_cause(scanned.logs, detector->knowledge().causes);
  for (const auto& note : inputs.notes) diagnosis.notes.push_back(note);
  if (!options.html.empty()) {
    const auto written = os::write_output(options.html, diagnosis_html(diagnosis, scanned.logs),
                                          os::Durability::Cached, 0600);
    if (!written) return console.say(written.error().message()), kFailed;
  }
  if (options.json) {
    console.line(dump_json(to_json_object(diagnosis)));
  } else {
    DiagnosisScope scope{scanned.logs.size(), 0};
    for (const auto& log : scanned.logs) scope.lines += log.lines;
    console.out(diagnosis_page(diagnosis, scope, console));
  }
  return inputs.errors.empty() && scanned.errors.empty() ? kDone : kFailed;
}

}  // namespace

Command cmd_diagnose() {
  return {"diagnose",
          "root cause of a failed log, offline",
          {"stoker diagnose main.log", "stoker diagnose logs/ --kernel-log dmesg-n04.txt --json",
           "journalctl -k -o export | stoker diagnose main.log --kernel-log -"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<DiagnoseOptions>();
            app.add_option("FILE", options->files,
                           "logs, folders, patterns; .gz, .zst, .xz; - is standard input")
                ->required();
            app.add_option("--kernel-log", options->kernel_logs,
                           "logs of the kernel: dmesg, journalctl -k, /dev/kmsg");
            app.add_option("--signatures", options->signatures,
                           "signature files of this site, beside ours (docs/diagnosis.md)");
            app.add_option("--html", options->html,
                           "write a page for a browser to this file: the cause, the evidence and a "
                           "timeline of the ranks");
            app.add_option("--threads", options->threads,
                           "scan with so many threads (default: one a core)")
                ->check(CLI::Range(1, 1024));
            app.add_flag("--json", options->json, "one JSON object");
            return [&context, options] { return diagnose_logs(context, *options); };
          }};
}

}  // namespace stoker::cli
