// stoker replay FILE... --config RUN.yaml: what would have been detected and done on an old log,
// and when.
#include "cli/replay/replay.hpp"

#include <fmt/format.h>
#include <memory>

#include "cli/commands/all.hpp"
#include "cli/diagnosis/detector.hpp"
#include "cli/read/run_file.hpp"

namespace stoker::cli {
namespace {

struct ReplayFlags {
  std::vector<std::string> files, kernel_logs, signatures;
  std::string config, until, zone;
  bool json = false;
};

// "+08:00", "-0530", "+2": milliseconds ahead of UTC.
std::optional<std::int64_t> parse_zone(const std::string& text) {
  if (text.empty() || text == "Z" || text == "UTC") return 0;
  if (text.size() < 2 || (text[0] != '+' && text[0] != '-')) return std::nullopt;
  std::string digits;
  for (const char c : text.substr(1)) {
    if (c == ':') continue;
    if (c < '0' || c > '9') return std::nullopt;
    digits += c;
  }
  if (digits.empty() || digits.size() > 4 || digits.size() == 3) return std::nullopt;
  const int hours = std::stoi(digits.substr(0, 2));
  const int minutes = digits.size() == 4 ? std::stoi(digits.substr(2)) : 0;
  if (hours > 14 || minutes > 59) return std::nullopt;
  return (text[0] == '-' ? -1 : 1) * (hours * 60 + minutes) * std::int64_t{60'000};
}

std::string hours(double seconds) {
  return format_duration(std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3)));
}

// A log without dates counts from its own beginning.
bool is_dated(WallTime at) {
  return at.time_since_epoch() >= 365 * 24h;
}

std::string moment(WallTime at) {
  return is_dated(at) ? format_rfc3339(at) : "+" + format_duration(at.time_since_epoch());
}

std::string shown_log(const Detection& d, const ReplayResult& r) {
  const std::string until = d.until ? moment(*d.until) : "";
  if (d.log == "went_on")
    return fmt::format("the training went on by itself at {}: a false alarm", until);
  if (d.log == "restarted")
    return fmt::format("training again only at {}: {} saved", until, hours(d.saved_s));
  return fmt::format("nothing more until {}, where {}: {} saved", until,
                     d.until && *d.until == r.to ? "it ends" : "it goes on", hours(d.saved_s));
}

void show(const Console& console, const ReplayResult& r) {
  const auto field = [](const char* name, const std::string& text) {
    return fmt::format("    {:<9} {}", name, printable(text));
  };
  const std::string span = is_dated(r.to)
                               ? fmt::format("{} to {}", moment(r.from), moment(r.to))
                               : fmt::format("undated, {} long", format_duration(r.to - r.from));
  console.line(
      fmt::format("{} files, {} lines, {} iterations, {}", r.files, r.lines, r.iterations, span));
  std::size_t said = 0;
  const auto say_until = [&](WallTime at) {
    for (; said < r.said.size() && r.said[said].at <= at; ++said)
      console.line(fmt::format("{}  {}", moment(r.said[said].at), printable(r.said[said].text)));
  };
  std::size_t acted = 0;
  for (const Detection& d : r.detections) {
    say_until(d.at);
    console.line(console.paint(Ink::Bold, fmt::format("{}  {}", moment(d.at), d.kind)));
    console.line(field("saw", d.evidence));
    console.line(field("would", d.decision));
    if (d.acted) console.line(field("the log", shown_log(d, r)));
    acted += d.acted ? 1u : 0u;
  }
  say_until(WallTime::max());
  console.line(fmt::format("{} detected, {} acted on, {} false alarms, {:.1f} hours saved",
                           r.detections.size(), acted, r.false_alarms(), r.saved_hours()));
  for (const std::string& note : r.notes)
    console.line(fmt::format("note      {}", printable(note)));
}

int replay_logs(Context& context, const ReplayFlags& options) {
  const Console& console = context.console;
  ReplayOptions how;
  std::vector<std::string> signatures = options.signatures;
  if (!options.config.empty()) {
    const auto file = read_run_file(context, options.config);
    if (!file) return console.say(file.error().message()), kUsage;
    if (const int code = show_errors(console, file->file.errors); code != kDone) return code;
    how.policy = file->file.policy;
    signatures.insert(signatures.end(), how.policy.watch.signatures.begin(),
                      how.policy.watch.signatures.end());
  }
  const auto zone = parse_zone(options.zone);
  if (!zone)
    return console.say(fmt::format("--zone {}: no offset; for example +08:00", options.zone)),
           kUsage;
  how.zone_ms = *zone;
  if (!options.until.empty()) {
    const auto until = parse_rfc3339(options.until);
    if (!until) return console.say(fmt::format("--until: {}", until.error().message())), kUsage;
    how.until = *until;
  }
  LogInputs inputs;
  add_log_inputs(options.files, false, inputs);
  add_log_inputs(options.kernel_logs, true, inputs);
  for (const auto& error : inputs.errors) console.say(error);
  for (const auto& input : inputs.files)
    if (input.path == "-")
      return console.say("replay reads its logs twice: save standard input to a file first"),
             kUsage;
  if (inputs.files.empty()) return kFailed;
  auto detector = make_detector(context, signatures);
  if (!detector) return console.say(detector.error().message()), kUsage;
  auto result =
      replay(inputs.files, how, std::make_shared<const diagnose::Detector>(std::move(*detector)));
  if (!result) return console.say(result.error().message()), kFailed;
  for (const auto& error : result->errors) console.say(error);
  if (options.config.empty())
    result->notes.emplace_back("no --config: the default limits and policy hold");
  if (options.json)
    console.line(dump_json(to_json_object(*result)));
  else
    show(console, *result);
  return inputs.errors.empty() && result->errors.empty() ? kDone : kFailed;
}

}  // namespace

Command cmd_replay() {
  return {"replay",
          "what would have been detected and done on an old log, and when",
          {"stoker replay main.log --config hello.yaml",
           "stoker replay runs/hello/gen-*/main.log --kernel-log dmesg-n04.txt --json"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<ReplayFlags>();
            app.add_option("FILE", options->files, "logs, folders, patterns; .gz, .zst, .xz")
                ->required();
            app.add_option("--config", options->config,
                           "RUN.yaml whose limits and policy hold (default: the defaults)");
            app.add_option("--kernel-log", options->kernel_logs,
                           "logs of the kernel: dmesg, journalctl -k, /dev/kmsg");
            app.add_option("--signatures", options->signatures,
                           "signature files of this site, beside ours (docs/diagnosis.md)");
            app.add_option("--zone", options->zone,
                           "zone of times that tell none, as +08:00 (default UTC)");
            app.add_option("--until", options->until,
                           "when the job was ended, where the logs end before (RFC 3339)");
            app.add_flag("--json", options->json, "one JSON object");
            return [&context, options] { return replay_logs(context, *options); };
          }};
}

}  // namespace stoker::cli
