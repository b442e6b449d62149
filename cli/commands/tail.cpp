// stoker tail URL: follows a remote file by HTTP ranges.
#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <thread>

#include "cli/commands/all.hpp"
#include "cli/remote/remote_tail.hpp"
#include "common/json.hpp"

namespace stoker::cli {
namespace {

constexpr Duration kFirstPause = 1s, kLongestPause = 60s;

struct TailFlags {
  std::string url, every = "2s", give_up;
  std::uint64_t last = 100;
  bool once = false, json = false;
};

struct Pace {
  Duration every{};
  std::optional<Duration> give_up;
};

void show(const Console& console, const RemoteTail::Line& line, bool json) {
  if (json)
    console.line(dump_json(Json{{"offset", line.offset}, {"text", line.text}}));
  else
    console.line(printable(line.text));
}

int follow(const Console& console, HttpRange& http, const TailFlags& options, const Pace& pace) {
  RemoteTail tail([&](const RangeRequest& request) { return http.get(request); }, options.last);
  std::string trouble;  // reported
  Instant since;
  Duration pause = kFirstPause;
  bool answered = false;
  for (;;) {
    const RemoteTail::News news = tail.poll();
    for (const auto& said : news.said) console.say(fmt::format("{}: {}", http.shown_url(), said));
    for (const auto& line : news.lines) show(console, line, options.json);
    const Instant now = monotonic_now();
    if (!news.error.empty()) {
      const std::string text = fmt::format("{}: {}", http.shown_url(), news.error);
      const bool stop = news.hopeless || !answered || options.once;
      if (trouble.empty()) since = now;
      const bool too_long = pace.give_up && now - since >= *pace.give_up;
      if (stop || too_long) {
        console.say(too_long
                        ? fmt::format("{}; given up after {}", text, format_duration(now - since))
                        : text);
        return kFailed;
      }
      if (trouble != news.error) console.say(text + "; trying again");
      trouble = news.error;
      std::this_thread::sleep_for(std::max(pause, news.wait.value_or(Duration{})));
      pause = std::min(kLongestPause, 2 * pause);
      continue;
    }
    answered = true;
    if (!trouble.empty()) console.say(fmt::format("{}: answers again", http.shown_url()));
    trouble.clear();
    pause = kFirstPause;
    if (news.more) continue;
    if (options.once) {
      for (const auto& line : tail.rest()) show(console, line, options.json);
      return kDone;
    }
    std::this_thread::sleep_for(pace.every);
  }
}

int tail_url(Context& context, const TailFlags& options) {
  const Console& console = context.console;
  if (const auto good = check_url(options.url); !good)
    return console.say(good.error().message()), kUsage;
  Pace pace;
  const auto every = parse_duration(options.every);
  if (!every || *every < 100ms)
    return console.say(fmt::format("--every {}: a duration of 100ms or more", options.every)),
           kUsage;
  pace.every = *every;
  if (!options.give_up.empty()) {
    const auto give_up = parse_duration(options.give_up);
    if (!give_up)
      return console.say(fmt::format("--give-up: {}", give_up.error().message())), kUsage;
    pace.give_up = *give_up;
  }
  HttpRange http(options.url);
  return follow(console, http, options, pace);
}

}  // namespace

Command cmd_tail() {
  return {"tail",
          "follow a remote file by HTTP ranges",
          {"stoker tail https://logs.example.org/hello/main.log",
           "stoker tail -n 20 --once http://127.0.0.1:8000/main.log --json"},
          [](CLI::App& app, Context& context) -> Action {
            const auto options = std::make_shared<TailFlags>();
            app.add_option("URL", options->url, "http or https")->required();
            app.add_option("-n,--lines", options->last, "how many lines first (default 100)")
                ->type_name("N");
            app.add_flag("--once", options->once, "show what is there and end");
            app.add_option("--every", options->every, "how often to ask (default 2s)");
            app.add_option("--give-up", options->give_up,
                           "end when the server was away for so long (default: never)");
            app.add_flag("--json", options->json, "JSON lines: offset, text");
            return [&context, options] { return tail_url(context, *options); };
          }};
}

}  // namespace stoker::cli
