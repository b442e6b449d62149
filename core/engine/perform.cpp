// perform(): the one translation of an action into calls of ports. Blocks; says how the effect went
// as events. Paths are relative to the run directory.
#include <fmt/format.h>

#include "common/os/room.hpp"
#include "core/engine/engine.hpp"
#include "core/recover/resume_files.hpp"
#include "wire/environment.hpp"
#include "wire/follow_files.hpp"

namespace stoker::core {
namespace {

using Results = std::vector<EventBody>;

struct Context {
  const Intent& intent;
  const PerformContext& given;
  Ports& ports;

  [[nodiscard]] std::string path(const std::string& name) const {
    return given.policy.directory + "/" + name;
  }
  [[nodiscard]] Results done(JobId job = {}, std::string detail = {}) const {
    return {EffectDone{intent.key, kind_of(intent.action), job, std::move(detail)}};
  }
  [[nodiscard]] Results failed(const std::string& why) const { return failed(Error{why, "", ""}); }
  [[nodiscard]] Results failed(const Error& error) const {
    return {
        EffectFailed{intent.key, kind_of(intent.action), error.message(), os::is_no_room(error)}};
  }
  [[nodiscard]] Results unknown(const std::string& why) const {
    return {EffectUnknown{intent.key, kind_of(intent.action), why}};
  }
  [[nodiscard]] Results of(const Status& status) const {
    return status ? done() : failed(status.error());
  }
  [[nodiscard]] Results of(const PortError& error) const {
    if (error.certainty == Certainty::Unknown) return unknown(error.error.message());
    Results results = failed(error.error);
    auto& failure = std::get<EffectFailed>(results.front());
    failure.starved = error.starved;
    failure.by_hand = error.by_hand;
    return results;
  }
};

std::string orders_path(const Context& c, OrderNumber number) {
  return c.path(fmt::format("orders/{:06}.json", number.value));
}

Results run(const Context& c, const WriteOrders& a) {
  if (auto made = c.ports.files.make_directories(c.path("orders"), 0700); !made) return c.of(made);
  const std::string path = orders_path(c, a.orders.number);
  const std::string text = to_json_text(a.orders) + "\n";
  auto created = c.ports.files.create_once(path, text);
  if (!created) return c.failed(created.error());
  if (*created) return c.done();
  auto there = c.ports.files.read(path, 1u << 20);
  if (!there) return c.failed(there.error());
  if (*there != text)
    return c.failed(fmt::format("{}: exists with other content; another daemon wrote it", path));
  return c.done();
}

constexpr std::string_view kOurSwitch = "stoker";  // content of a kill switch that we have set

// Who has set a kill switch that lies there: "" = stoker itself.
std::string setter_of(const Context& c, const std::string& path) {
  const auto text = c.ports.files.read(path, 64);
  if (text && text->substr(0, text->find('\n')) == kOurSwitch) return "";
  const std::string author = c.ports.files.author(path);
  return author.empty() ? "a person" : author;
}

// A job of a script would leave at once while its kill switch lies there.
std::optional<Results> burned_by_switch(const Context& c) {
  const std::string& path = c.given.policy.train.kill_switch;
  if (has_agents(c.given.policy) || path.empty()) return std::nullopt;
  const auto there = c.ports.files.exists(path);
  if (!there) return c.failed(there.error());
  if (!*there) return std::nullopt;
  const std::string setter = setter_of(c, path);
  Results results = c.failed(
      setter.empty()
          ? fmt::format(
                "the kill switch {} exists and cannot be moved aside, so a job would exit at once",
                path)
          : fmt::format("the kill switch {} was set by {}", path, setter));
  std::get<EffectFailed>(results.front()).burns = true;
  return results;
}

Results run(const Context& c, const Submit& a) {
  if (auto burned = burned_by_switch(c)) return *std::move(burned);
  auto there = c.ports.files.exists(orders_path(c, a.order));
  if (!there) return c.failed(there.error());
  if (!*there) return c.failed(fmt::format("order {} is not on disk", a.order.value));
  SubmitRequest request;
  request.submit = a;
  request.policy = c.given.policy;
  request.agent_command = c.given.agent_command_prefix;
  for (const char* word : {"run", "--run-dir"}) request.agent_command.emplace_back(word);
  request.agent_command.push_back(c.given.policy.directory);
  request.agent_command.emplace_back("--ranks-per-node");
  request.agent_command.push_back(std::to_string(c.given.policy.train.ranks_per_node));
  request.environment[wire::env::kRun] = c.given.policy.run.text;
  request.environment[wire::env::kRunDirectory] = c.given.policy.directory;
  request.environment[wire::env::kToken] = a.token.text;
  request.environment[wire::env::kOrder] = std::to_string(a.order.value);
  request.environment[wire::env::kState] = c.given.state_directory;
  const auto result = c.ports.scheduler.submit(request);
  if (const auto* error = std::get_if<PortError>(&result)) return c.of(*error);
  const JobId job = std::get<JobId>(result);
  return c.done(job, job.text());
}

// What a follower's job is submitted with: the run's own options, but for what `after:` says.
RunPolicy job_policy(const RunPolicy& run, const FollowerPolicy& follower, Iteration iteration) {
  RunPolicy policy = run;
  policy.run = RunName(fmt::format("{}+{}.{}", run.run.text, follower.name, iteration.value));
  SchedulerPolicy& s = policy.scheduler;
  s.partition = follower.partition;
  s.account = follower.account;
  s.gpus_per_node = follower.gpus_per_node;
  s.cpus_per_task = follower.cpus_per_task;
  policy.train.command = follower.command;
  policy.train.batch_script.clear();
  policy.train.save_signal.clear();
  policy.train.exit_before_limit = {};
  return policy;
}

wire::FollowOrder order_of(const Context& c, const RunFollower& a, const FollowerPolicy& follower) {
  const RunPolicy& policy = c.given.policy;
  wire::FollowOrder order;
  order.run = policy.run;
  order.follower = a.follower;
  order.iteration = a.iteration;
  order.generation = a.generation;
  const std::string& tree = policy.checkpoints.directory;
  order.checkpoint_directory = tree.starts_with("/") ? tree : c.path(tree);
  if (!a.checkpoint.empty()) order.checkpoint = order.checkpoint_directory + "/" + a.checkpoint;
  order.number = a.number;
  order.token = a.token;
  order.command = follower.command;
  order.environment = policy.train.environment;
  for (const auto& [name, value] : follower.environment) order.environment[name] = value;
  order.directory = policy.directory;
  return order;
}

Results run(const Context& c, const RunFollower& a) {
  const FollowerPolicy* follower = nullptr;
  for (const FollowerPolicy& f : c.given.policy.after)
    if (f.name == a.follower) follower = &f;
  if (follower == nullptr) return c.failed(a.follower + " is no longer in RUN.yaml");
  const std::string after = c.path(wire::kFollowFolder);
  const std::string folder =
      after + "/" + wire::follow_folder(a.follower, a.iteration, a.generation);
  for (const std::string& path : {after, folder})
    if (auto made = c.ports.files.make_directories(path, 0700); !made) return c.of(made);
  const std::string order = to_json_text(order_of(c, a, *follower)) + "\n";
  if (auto put = c.ports.files.replace(folder + "/" + wire::kFollowOrder, order); !put)
    return c.of(put);
  SubmitRequest request;
  request.policy = job_policy(c.given.policy, *follower, a.iteration);
  request.submit.token = a.token;
  request.submit.nodes = follower->nodes;
  request.submit.time_limit = follower->time_limit;
  request.submit.exclude = a.exclude;
  request.submit.hold_for_spares = false;
  request.agent_command = c.given.agent_command_prefix;
  for (const char* word : {"follow", "--folder"}) request.agent_command.emplace_back(word);
  request.agent_command.push_back(folder);
  request.agent_command.emplace_back("--token");
  request.agent_command.push_back(a.token.text);
  request.environment[wire::env::kRun] = c.given.policy.run.text;
  request.environment[wire::env::kRunDirectory] = c.given.policy.directory;
  request.environment[wire::env::kToken] = a.token.text;
  request.environment[wire::env::kState] = c.given.state_directory;
  request.follower = true;
  request.output = folder + "/" + wire::kFollowJobOutput;
  const auto result = c.ports.scheduler.submit(request);
  if (const auto* error = std::get_if<PortError>(&result)) return c.of(*error);
  const JobId job = std::get<JobId>(result);
  return c.done(job, job.text());
}

Results run(const Context& c, const RemoveFollowFolder& a) {
  const std::string folder = fmt::format(
      "{}/{}", wire::kFollowFolder, wire::follow_folder(a.follower, a.iteration, a.generation));
  const auto names = c.ports.files.list(c.path(folder));
  if (!names) {
    const auto there = c.ports.files.exists(c.path(folder));
    return there && !*there ? c.done({}, "already gone") : c.failed(names.error());
  }
  std::vector<std::string> files{wire::kFollowOrder};  // first: without it a late job runs nothing
  for (const std::string& name : *names) {
    if (!wire::is_follow_file(name))
      return c.failed(Error{"it holds a file that is not stoker's: " + name, folder, ""});
    if (name != wire::kFollowOrder) files.push_back(name);
  }
  return c.of(c.ports.files.remove_folder(c.given.policy.directory, folder, files));
}

Results run(const Context& c, const Cancel& a) {
  const auto result = c.ports.scheduler.cancel(a);
  if (const auto* error = std::get_if<PortError>(&result)) return c.of(*error);
  return c.done(a.job);
}

Results run(const Context& c, const SetExclusions& a) {
  const auto result = c.ports.scheduler.set_exclusions(a);
  if (const auto* error = std::get_if<PortError>(&result)) return c.of(*error);
  return c.done(a.job);
}

Results run(const Context& c, const SignalJob& a) {
  const auto result = c.ports.scheduler.signal(a);
  if (const auto* error = std::get_if<PortError>(&result)) return c.of(*error);
  return c.done(a.job);
}

Results run(const Context& c, const SetKillSwitch& a) {
  const auto there = c.ports.files.exists(a.path);
  const std::string setter = there && *there ? setter_of(c, a.path) : "";
  if (!setter.empty()) return c.done({}, SetKillSwitch::kPersons + setter);  // left as it is
  if (a.there) return c.of(c.ports.files.replace(a.path, std::string(kOurSwitch) + "\n"));
  if (there && !*there) return c.done({}, "already gone");
  return c.of(c.ports.files.rename(a.path, a.path + ".handled"));
}

Results run(const Context& c, const ProbeJob& a) {
  ProbeRequest request{a, c.given.agent_command_prefix, ""};
  std::string name = "stacks/" + c.intent.key.text;
  for (char& letter : name)
    if (letter == '/') letter = '-';
  name[6] = '/';
  if (!a.nodes.empty()) {
    request.folder = c.path(name);
    if (auto made = c.ports.files.make_directories(request.folder, 0755); !made)
      request.folder.clear();
  }
  JobProbed probed = c.ports.scheduler.probe(request);
  if (!probed.stacks.empty()) probed.stacks = name;
  Results results{std::move(probed)};
  results.push_back(c.done(a.job).front());
  return results;
}

Results run(const Context& c, const SetResumePoint& a) {
  const auto files = resume_files(a.format, a.directory, a.iteration);
  if (files.checkpoint.empty()) return c.failed("this format cannot be set back: " + a.format);
  const auto parts = c.ports.files.list(files.checkpoint);
  if (!parts) return c.failed(parts.error());
  if (parts->empty()) return c.failed(fmt::format("{} is empty", files.checkpoint));
  if (auto ours = c.ports.files.check_put_here(files.checkpoint); !ours) return c.of(ours);
  std::string key = c.intent.key.text;
  for (char& letter : key)
    if (letter == '/') letter = '-';
  std::string was;
  for (const ResumeFile& file : files.names) {
    const auto there = c.ports.files.exists(file.path);
    if (!there) return c.failed(there.error());
    if (!*there && file.optional) continue;
    const auto old = c.ports.files.read(file.path, 4096);
    if (!old) return c.failed(old.error());
    was += fmt::format("{}{} said \"{}\"", was.empty() ? "" : ", ", file.path,
                       old->substr(0, old->find('\n')));
    if (!a.write || *old == file.text) continue;
    const auto kept = c.ports.files.create_once(file.path + ".before-" + key, *old);
    if (!kept) return c.failed(kept.error());
    if (auto set = c.ports.files.replace(file.path, file.text); !set) return c.of(set);
  }
  return c.done({}, was);
}

Results run(const Context& c, const LookAtTree& a) {
  const auto tree = c.ports.files.tree(a.path);
  if (!tree) return c.failed(tree.error());
  return c.done({}, *tree);
}

Results run(const Context& c, const DrainNode& a) {
  const auto result = c.ports.scheduler.drain(a);
  if (const auto* error = std::get_if<PortError>(&result)) return c.of(*error);
  return c.done({}, std::get<std::string>(result));
}

Results run(const Context& c, const LookUpToken& a) {
  const auto result = c.ports.scheduler.look_up(a.token);
  if (const auto* error = std::get_if<PortError>(&result)) return c.of(*error);
  const auto& found = std::get<std::optional<JobId>>(result);
  Results results{TokenLookedUp{a.token, found.has_value(), found.value_or(JobId{})}};
  results.push_back(c.done(found.value_or(JobId{})).front());
  return results;
}

Results run(const Context& c, const WriteControl& a) {
  return c.of(c.ports.files.replace(c.path("control.json"), to_json_text(a.control) + "\n"));
}

Results run(const Context& c, const ConsumeSwitch& a) {
  const std::string from = c.path("switch/" + a.name);
  auto there = c.ports.files.exists(from);
  if (there && !*there) return c.done({}, "already gone");
  std::string key = c.intent.key.text;
  for (char& letter : key)
    if (letter == '/') letter = '-';
  return c.of(
      c.ports.files.rename(from, c.path(fmt::format("switch/.handled-{}-{}", a.name, key))));
}

Results run(const Context& c, const SendAlert& a) {
  return c.of(c.ports.alerts.accept(c.intent.key, a, c.given.policy.alerts));
}

}  // namespace

std::vector<EventBody> perform(const Intent& intent, const PerformContext& context, Ports& ports) {
  const Context c{intent, context, ports};
  return std::visit([&](const auto& action) { return run(c, action); }, intent.action);
}

}  // namespace stoker::core
