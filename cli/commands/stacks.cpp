// stoker stacks RUN: asks for the stacks of all ranks, waits for them, groups equal ones and names
// the odd ranks out.
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <memory>
#include <thread>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"
#include "cli/read/event_file.hpp"
#include "cli/read/published.hpp"
#include "common/os/files.hpp"
#include "diagnose/cause/stack_groups.hpp"

namespace stoker::cli {
namespace {

struct StacksOptions {
  std::string run;
  bool last = false, json = false;
  std::string wait = "30s";
};

// The newest event that says where stacks were written; its number and folder.
struct Collection {
  std::uint64_t seq = 0;
  std::string directory;  // relative to the run directory
};

Result<Collection> newest_collection(const std::string& run_directory) {
  STOKER_TRY(file, EventFile::open(run_directory));
  Collection found;
  const auto said = [](const wire::PublishedEvent& e) -> std::string {
    if (e.kind == "job_probed" && e.event.is_object()) {  // of a script: from inside its job
      const Json stacks = e.event.value("stacks", Json());
      return stacks.is_string() ? stacks.get<std::string>() : std::string();
    }
    const Json inner = said_by_agents(e);
    if (!inner.is_object() || inner.value("kind", Json()) != "stacks") return {};
    const Json directory = inner.value("directory", Json());
    return directory.is_string() ? directory.get<std::string>() : std::string();
  };
  STOKER_TRY(events,
             file.newest(1, [&](const wire::PublishedEvent& e) { return !said(e).empty(); }));
  if (!events.empty()) found = {events[0].seq, said(events[0])};
  return found;
}

Result<std::vector<diagnose::RankStack>> read_stacks(const std::string& folder) {
  constexpr std::size_t kMaxFile = 4u << 20;
  STOKER_TRY(names, os::list_directory(folder));
  std::vector<diagnose::RankStack> stacks;
  for (const std::string& name : names) {
    if (!name.ends_with(".txt")) continue;
    const std::string stem = name.substr(0, name.size() - 4);
    const std::size_t dot = stem.rfind('.');
    if (dot == std::string::npos) continue;
    diagnose::RankStack stack;
    stack.node = stem.substr(0, dot);
    const auto [end, error] =
        std::from_chars(stem.data() + dot + 1, stem.data() + stem.size(), stack.rank);
    if (error != std::errc{} || end != stem.data() + stem.size()) continue;
    STOKER_TRY(text, os::read_file(folder + "/" + name, kMaxFile, true));
    stack.text = text;
    stacks.push_back(std::move(stack));
  }
  if (stacks.empty()) return fail("there are no stacks", folder);
  return stacks;
}

std::string members_text(const std::vector<diagnose::StackGroup::Member>& members) {
  std::string text;
  for (std::size_t i = 0; i < members.size() && i < 16; ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", members[i].rank, members[i].node);
  if (members.size() > 16) text += fmt::format(" and {} more", members.size() - 16);
  return printable(text);
}

Json members_json(const std::vector<diagnose::StackGroup::Member>& members) {
  Json out = Json::array();
  for (const auto& m : members) out.push_back({{"rank", m.rank}, {"node", m.node}});
  return out;
}

void show(const Console& console, const diagnose::StackReport& report, const std::string& folder,
          bool json) {
  if (json) {
    Json groups = Json::array();
    for (const auto& g : report.groups)
      groups.push_back({{"ranks", members_json(g.members)}, {"threads", g.threads}});
    console.line(dump_json(
        Json{{"directory", folder}, {"groups", groups}, {"odd", members_json(report.odd)}}));
    return;
  }
  for (const auto& g : report.groups) {
    console.line(console.paint(Ink::Bold, fmt::format("{} rank{}: ", g.members.size(),
                                                      g.members.size() == 1 ? "" : "s")) +
                 members_text(g.members));
    for (const std::string& thread : g.threads) console.line("  " + printable_lines(thread));
  }
  if (!report.odd.empty())
    console.line(console.paint(Ink::Red, "odd ranks out: ") + members_text(report.odd));
  else if (report.groups.size() > 1)
    console.line("no group holds more than half of the ranks: no rank is the odd one");
  else
    console.line("all ranks do the same");
  console.line("full stacks: " + printable(folder));
}

// Asks and waits. An Error when nothing can come.
Result<std::string> collect(Context& context, const wire::SiteRun& run, Duration limit) {
  const auto before = newest_collection(run.directory);
  const std::uint64_t seen = before ? before->seq : 0;
  wire::Request request;
  request.verb = "stacks";
  request.run = run.run;
  const Answer answer = ask_daemon(context.state, request);
  if (answer.reach != Reach::Answered)
    return fail(answer.why, "stacks",
                "--last groups what was collected before; start the daemon with: " +
                    start_command(context));
  if (!answer.response.ok) return fail(answer.response.message);
  context.console.say("asked; waiting for the stacks");
  for (const Instant end = monotonic_now() + limit; monotonic_now() < end;) {
    const auto now = newest_collection(run.directory);
    if (now && now->seq > seen) return now->directory;
    std::this_thread::sleep_for(200ms);
  }
  return fail("no stacks came within " + format_duration(limit), run.run,
              "stoker why " + run.run + " shows what the agents said");
}

int stacks(Context& context, const StacksOptions& options) {
  const Console& console = context.console;
  const auto limit = parse_duration(options.wait);
  if (!limit) return console.say("--wait: " + limit.error().message()), kUsage;
  const auto run = find_run(context.state, options.run);
  if (!run) return console.say(run.error().message()), kFailed;
  Result<std::string> where = std::string();
  if (options.last) {
    const auto newest = newest_collection(run->directory);
    if (!newest) return console.say(newest.error().message()), kFailed;
    where = newest->directory;
  } else {
    where = collect(context, *run, *limit);
  }
  if (!where) return console.say(where.error().message()), kFailed;
  if (where->empty()) return console.say("no stacks were collected yet"), kFailed;
  if (where->starts_with("/") || where->find("..") != std::string::npos)
    return console.say("the event names a folder outside the run: " + printable(*where)), kFailed;
  const std::string folder = run->directory + "/" + *where;
  const auto found = read_stacks(folder);
  if (!found) return console.say(found.error().message()), kFailed;
  show(console, diagnose::group_stacks(*found), folder, options.json);
  return kDone;
}

}  // namespace

Command cmd_stacks() {
  return {
      "stacks",
      "collect the stacks of all ranks, group equal ones, name the odd ranks",
      {"stoker stacks hello", "stoker stacks hello --last --json"},
      [](CLI::App& app, Context& context) -> Action {
        const auto options = std::make_shared<StacksOptions>();
        app.add_option("RUN", options->run, "name of a run or a run directory")->required();
        app.add_flag("--last", options->last, "group what was collected last, send no request");
        app.add_option("--wait", options->wait, "how long to wait (default 30s)")->type_name("30s");
        app.add_flag("--json", options->json, "one JSON document");
        return [&context, options] { return stacks(context, *options); };
      }};
}

}  // namespace stoker::cli
