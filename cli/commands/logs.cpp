// stoker logs RUN: the end of the newest generation's log, read backwards from the end, then
// followed; moves on to the next generation by itself.
#include <algorithm>
#include <charconv>
#include <memory>
#include <thread>

#include "cli/commands/all.hpp"
#include "cli/line_file.hpp"
#include "cli/published.hpp"
#include "common/os/files.hpp"

namespace stoker::cli {
namespace {

struct Options {
  std::string run, node;
  std::optional<std::uint32_t> rank;
  std::uint64_t last = 100;
  bool follow = false, json = false;
};

// "gen-000017" of the highest number; "" when no generation has started.
std::string newest_generation(const std::string& run_directory) {
  const auto names = os::list_directory(run_directory);
  std::string newest;
  if (names)
    for (const std::string& name : *names)
      if (name.starts_with("gen-") && (name.size() > newest.size() || name > newest)) newest = name;
  return newest;
}

// Lines of main.log begin with "[node:rank]".
bool is_wanted(std::string_view line, const Options& options) {
  if (options.node.empty() && !options.rank) return true;
  const std::size_t colon = line.find(':'), close = line.find(']');
  if (line.empty() || line[0] != '[' || colon == std::string_view::npos || close < colon)
    return false;
  if (!options.node.empty() && line.substr(1, colon - 1) != options.node) return false;
  return !options.rank ||
         line.substr(colon + 1, close - colon - 1) == std::to_string(*options.rank);
}

// Where to begin so that `last` wanted lines are shown. Looks back at most this far for lines of
// one rank or node, so that the answer comes at once from a log of any size.
constexpr std::uint64_t kLookBack = 64u << 20;

Result<std::uint64_t> find_start(const LineFile& file, const Options& options, bool filtered) {
  if (!filtered) return file.start_of_last(options.last);
  std::uint64_t seen = 0, bytes = 0;
  STOKER_TRY_STATUS(file.backward([&](std::string_view line) {
    bytes += line.size() + 1;
    if (is_wanted(line, options)) ++seen;
    return seen < options.last && bytes < kLookBack;
  }));
  return bytes >= file.size() ? std::uint64_t{0} : file.size() - bytes;
}

struct Source {
  std::string generation, path;
  bool filtered = false;  // main.log stands in for a rank's own
};

Source choose(const std::string& run_directory, const Options& options) {
  Source source{newest_generation(run_directory), {}, !options.node.empty() || options.rank};
  const std::string folder = run_directory + "/" + source.generation;
  source.path = folder + "/main.log";
  if (!options.rank || !options.node.empty()) return source;
  const std::string own = folder + "/ranks/" + std::to_string(*options.rank) + ".log";
  if (os::exists(own)) source = {source.generation, own, false};
  return source;
}

// {"generation","node","rank","text"}; node and rank where the line begins with "[node:rank] ".
Json as_json(std::string_view line, const Source& source, const Options& options) {
  Json out{{"generation", source.generation}};
  const std::size_t colon = line.find(':'), close = line.find(']');
  std::uint32_t rank = 0;
  const bool told = line.starts_with('[') && colon != std::string_view::npos &&
                    close != std::string_view::npos && colon < close &&
                    std::from_chars(line.data() + colon + 1, line.data() + close, rank).ptr ==
                        line.data() + close;
  if (told) {
    out["node"] = std::string(line.substr(1, colon - 1));
    out["rank"] = rank;
    line.remove_prefix(close + 1);
    if (line.starts_with(' ')) line.remove_prefix(1);
  } else if (options.rank && !source.filtered) {
    out["rank"] = *options.rank;
  }
  out["text"] = std::string(line);
  return out;
}

int follow(Context& context, const std::string& directory, const Options& options) {
  Source source = choose(directory, options);
  bool first = true;
  for (;;) {
    auto file = LineFile::open(source.path);
    if (!file && !options.follow) return context.console.say(file.error().message()), kFailed;
    std::uint64_t offset = 0;
    if (file && first) {
      const auto start = find_start(*file, options, source.filtered);
      if (!start) return context.console.say(start.error().message()), kFailed;
      offset = *start;
    }
    first = false;
    for (;;) {
      if (!file) file = LineFile::open(source.path);
      if (file) {
        const auto end = file->forward(offset, !options.follow, [&](std::string_view line) {
          if (!source.filtered || is_wanted(line, options))
            context.console.line(options.json ? dump_json(as_json(line, source, options))
                                              : printable(line));
          return true;
        });
        if (!end) return context.console.say(end.error().message()), kFailed;
        offset = *end;
      }
      if (!options.follow) return kDone;
      std::this_thread::sleep_for(200ms);
      const Source now = choose(directory, options);
      if (now.path != source.path) {
        source = now;
        break;
      }
    }
  }
}

int logs(Context& context, const Options& options) {
  const auto run = find_run(context.state, options.run);
  if (!run) return context.console.say(run.error().message()), kFailed;
  if (newest_generation(run->directory).empty() && !options.follow)
    return context.console.say(run->directory + ": no generation has started yet"), kFailed;
  return follow(context, run->directory, options);
}

}  // namespace

Command cmd_logs() {
  return {
      "logs",
      "the training's output: the end of it, and on from there",
      {"stoker logs hello -n 50", "stoker logs hello -f --rank 3"},
      [](CLI::App& app, Context& context) -> Action {
        const auto options = std::make_shared<Options>();
        app.add_option("RUN", options->run, "name of a run or a run directory")->required();
        app.add_flag("-f,--follow", options->follow, "go on with what is new");
        app.add_option("-n,--lines", options->last, "how many lines (default 100)")->type_name("N");
        app.add_option("--rank", options->rank, "only this rank")->type_name("R");
        app.add_option("--node", options->node, "only this node")->type_name("N");
        app.add_flag("--json", options->json, "JSON lines: generation, node, rank, text");
        return [&context, options] { return logs(context, *options); };
      }};
}

}  // namespace stoker::cli
