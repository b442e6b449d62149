// Daemon, answering: the verbs of the control socket become inputs; the answer goes out once the
// journal has them.
#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/format.h>
#include <re2/re2.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include "alerts/sink.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/writers.hpp"
#include "configs/schema/run_checks.hpp"
#include "configs/schema/run_schema.hpp"
#include "configs/schema/yaml_tree.hpp"
#include "core/engine/node_finder.hpp"
#include "core/secrets.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/loop/log.hpp"
#include "daemon/loop/node_names.hpp"
#include "daemon/state/run_owner.hpp"
#include "wire/run_directory.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;

// The highest one in a run directory; 0 = none.
Generation newest_generation(const std::string& directory) {
  Generation newest;
  const auto names = os::list_directory(directory);
  for (const auto& name : names ? *names : std::vector<std::string>{})
    if (const auto generation = wire::parse_generation_name(name))
      newest = std::max(newest, *generation);
  return newest;
}

using core::JournalRow;

// Of one run: members of its group may ask. Everything else reaches other runs, or says what
// commands the daemon's user executes: it belongs to that user alone.
constexpr std::array kRunVerbs{"save",   "stop",    "kill",     "pause",
                               "resume", "restart", "rollback", "stacks"};
constexpr std::array kSiteVerbs{"exclude", "include", "ack", "silence"};
constexpr std::array kNodeVerbs{"exclude", "include"};  // the others name no nodes
constexpr std::array kListVerbs{"forget", "rename"};    // the list of runs, and one of them
constexpr std::size_t kMostNodes = 10000;

template <std::size_t N>
bool is_one_of(const std::array<const char*, N>& names, const std::string& verb) {
  return std::find(names.begin(), names.end(), verb) != names.end();
}

wire::Response refuse(std::string message) {
  wire::Response response;
  response.message = std::move(message);
  return response;
}
wire::Response accept(std::string message, Json data = Json::object()) {
  wire::Response response;
  response.ok = true;
  response.message = std::move(message);
  response.data = std::move(data);
  return response;
}

Json decision_data(const core::Decision& decision) {
  Json actions = Json::array();
  for (const core::Action& action : decision.actions)
    actions.push_back(core::without_secrets(Json(action)));
  return {{"from", decision.from}, {"to", decision.to}, {"actions", actions}};
}

wire::Response response_of(const core::Decision& decision, bool dry_run) {
  auto response = decision.rejected ? refuse(decision.reason) : accept(decision.reason);
  response.data = decision_data(decision);
  if (response.message.empty()) response.message = "nothing to do";
  if (!dry_run || decision.rejected) return response;
  std::string actions;
  for (const core::Action& action : decision.actions)
    actions += fmt::format("{}{}", actions.empty() ? "" : ", ", core::kind_of(action));
  response.message =
      fmt::format("would: {}{}", response.message, actions.empty() ? "" : " (" + actions + ")");
  return response;
}

// What a request says is kept in the journal and shown to people.
std::optional<std::string> why_too_much(const wire::Request& request) {
  constexpr std::size_t kLongestReason = 1000, kLongestNode = 255, kNodeBytes = 64u << 10;
  const std::size_t argument_bytes = is_one_of(kRunVerbs, request.verb) ? 1024 : 8192;
  if (request.reason.size() > kLongestReason)
    return fmt::format("the reason has {} bytes, {} at most", request.reason.size(),
                       kLongestReason);
  std::size_t bytes = request.verb.size() + request.run.size();
  for (const auto& [name, value] : request.arguments) bytes += name.size() + value.size();
  if (bytes > argument_bytes)
    return fmt::format("the arguments have {} bytes, {} at most", bytes, argument_bytes);
  if (!request.nodes.empty() && !is_one_of(kNodeVerbs, request.verb))
    return fmt::format("{} takes no nodes", request.verb);
  std::size_t node_bytes = 0;
  for (const std::string& node : request.nodes) {
    if (node.size() > kLongestNode) return "a node's name is longer than 255 bytes";
    node_bytes += node.size();
  }
  if (node_bytes > kNodeBytes)
    return fmt::format("the nodes' names have {} bytes, {} at most", node_bytes, kNodeBytes);
  return std::nullopt;
}

// The decision about our input in the rows of its turn.
template <class Body>
wire::Response find_answer(const std::vector<JournalRow>& rows, const Body& body) {
  for (const JournalRow& row : rows)
    if (const auto* asked = std::get_if<Body>(&row.event.body); asked != nullptr && *asked == body)
      return response_of(row.decision, false);
  return accept("done");
}

configs::RunSchemaContext schema_context(const std::string& state) {
  configs::RunSchemaContext context;
  context.state_directory = state;
  for (const alerts::SinkKind& known : alerts::known_sinks()) {
    configs::SinkKind kind{known.kind, {}, {}};
    for (const alerts::SinkOption& option : known.options)
      (option.required ? kind.required : kind.optional).push_back(option.name);
    context.sinks.push_back(std::move(kind));
  }
  context.sink_error = [](const core::SinkPolicy& sink) {
    const Status checked = alerts::check_sink(sink);
    return checked ? std::string() : checked.error().what;
  };
  return context;
}

configs::RunWorld world() {
  return {os::current_environment(), [](const std::string& expression) {
            RE2::Options quiet;
            quiet.set_log_errors(false);
            const RE2 compiled(expression, quiet);
            return compiled.ok() ? std::string() : compiled.error();
          }};
}

std::string error_lines(const configs::Diagnostics& errors) {
  std::string text;
  for (const auto& error : errors) text += (text.empty() ? "" : "\n") + error.text();
  return text;
}

}  // namespace

std::optional<std::string> Daemon::why_refused(const Peer& peer, const wire::Request& request) {
  if (request.verb == "ping") return std::nullopt;
  const bool of_run = is_one_of(kRunVerbs, request.verb);
  const auto run = of_run ? runs_.find(RunName(request.run)) : runs_.end();
  const std::string group = run == runs_.end() ? "" : run->second.policy.group;
  if (rights_.may_act(peer, group)) return std::nullopt;
  std::string why;
  if (!of_run)
    why = fmt::format(": {} belongs to {}, who runs stokerd", request.verb,
                      rights_.name_of(::geteuid()));
  else if (!group.empty())
    why = ": not a member of group " + group;
  return fmt::format("{} may not act here{}", rights_.name_of(peer.uid), why);
}

// The orders of others stay in the journal and in files: a day has so many.
std::optional<std::string> Daemon::why_not_today(const Peer& peer, const wire::Request& request) {
  if (request.dry_run || peer.uid == 0 || peer.uid == ::geteuid()) return std::nullopt;
  auto why = day_.spend(peer.uid, rights_.name_of(peer.uid), wall_now());
  if (const auto run = runs_.find(RunName(request.run)); why && run != runs_.end())
    *why += fmt::format("; {0}/switch/kill and {0}/switch/stop are obeyed, {1} can do the rest",
                        run->second.policy.directory, rights_.name_of(::geteuid()));
  return why;
}

// When one more is due: asking without end costs nothing else meanwhile.
void Daemon::ask_again_later(const Reply& reply) {
  const auto due = std::make_shared<asio::steady_timer>(io_, 1s);
  due->async_wait([due, reply](const boost::system::error_code& stopped) {
    if (!stopped) reply(refuse("too many requests: ask again in a second"));
  });
}

void Daemon::on_request(const Peer& peer, std::string line, LineServer::Answer answer) {
  const Reply reply = [answer](const wire::Response& response) { answer(to_json_text(response)); };
  if (!bytes_.takes(peer, line.size(), monotonic_now())) return ask_again_later(reply);
  const auto parsed = from_json_text<wire::Request>(line, "request", {1u << 20, 16});
  if (!parsed) return reply(refuse(parsed.error().message()));
  const wire::Request& request = *parsed;
  if (request.version != 1)
    return reply(
        refuse(fmt::format("version {} of the request is not known, 1 is", request.version)));
  if (request.nodes.size() > kMostNodes) return reply(refuse("too many nodes in one request"));
  if (const auto why = why_refused(peer, request)) return reply(refuse(*why));
  if (const auto why = why_too_much(request)) return reply(refuse(*why));
  if (request.verb != "ping" && !rights_.has_patience_for(peer, monotonic_now()))
    return reply(refuse("too many requests: ask again in a second"));
  const std::string by = rights_.name_of(peer.uid);
  if (request.verb == "ping")
    return reply(accept("stokerd is here", {{"pid", ::getpid()},
                                            {"epoch", foundation_.possession->epoch().value},
                                            {"trouble", trouble_}}));
  if (ending_) return reply(refuse("stokerd is leaving; ask again when it is back"));
  if (!trouble_.empty())
    return reply(refuse("nothing can be done: the journal cannot be written: " + trouble_));
  if (request.verb == "run") return ask_run(request, by, reply);
  if (request.verb == "reload") return reload(by, reply);
  if (request.verb == "alerts-test") return test_alerts(request, reply);
  if (request.verb == "alerts-digest") return make_digest(request, by, reply);
  if (!is_one_of(kRunVerbs, request.verb) && !is_one_of(kSiteVerbs, request.verb) &&
      !is_one_of(kListVerbs, request.verb))
    return reply(refuse("there is no verb \"" + request.verb + "\""));
  if (request.verb == "exclude" && !request.nodes.empty()) return look_up_nodes(request, by, reply);
  if (const auto why = why_not_today(peer, request)) return reply(refuse(*why));
  ask_operator(request, by, reply);
}

// The name of no node is refused, so that a typing error leaves no bad node in use. A scheduler
// that does not answer proves nothing: the order is accepted, with a note.
void Daemon::look_up_nodes(const wire::Request& request, const std::string& by, Reply reply) {
  std::set<core::SchedulerPlace> places;
  for (const auto& [name, run] : runs_) places.insert(core::place_of(run.policy.scheduler));
  errands_->post([this, request, by, reply, places] {
    const std::vector<NodeName> asked(request.nodes.begin(), request.nodes.end());
    std::vector<Result<std::set<NodeName>>> answers;
    for (const core::SchedulerPlace& place : places)
      if (auto* list = dynamic_cast<core::NodeFinder*>(&scheduler_->of(place)))
        answers.push_back(list->find_nodes(asked));
    const NamesJudged judged = judge_names(asked, answers);
    asio::post(io_, [this, request, by, reply, judged] {
      if (!judged.refusal.empty()) return reply(refuse(judged.refusal));
      ask_operator(request, by, [reply, judged](wire::Response response) {
        if (!judged.note.empty()) response.message += "; " + judged.note;
        reply(response);
      });
    });
  });
}

void Daemon::ask_operator(const wire::Request& request, const std::string& by, Reply reply) {
  if (request.run.empty() && !is_one_of(kSiteVerbs, request.verb))
    return reply(refuse(request.verb + " wants a run"));
  const bool known = request.run.empty() || runs_.contains(RunName(request.run));
  if (!known && request.verb == "forget") return tell_forgotten(request.run, reply);
  if (!known)
    return reply(refuse("there is no run \"" + request.run + "\"; stoker status lists them"));
  core::OperatorAsked asked{request.verb, request.arguments, {}, by, request.reason, "socket"};
  for (const std::string& node : request.nodes) asked.nodes.emplace_back(node);
  const core::Input input{RunName(request.run), asked, {}};
  const auto name = request.arguments.find("to");
  if (request.verb == "rename" &&
      (name == request.arguments.end() || !configs::is_run_name(name->second)))
    return reply(
        refuse("the new name: expected 1 to 64 letters, digits, '.', '_' and '-', "
               "beginning with a letter or a digit"));
  if (request.verb == "forget")
    turns_->inspect([this, run = input.run](core::Engine& engine, SqliteJournal&) {
      const auto found = engine.state().runs.find(run);
      if (found != engine.state().runs.end()) leaving_[run] = found->second.policy;
    });
  if (request.dry_run)
    return turns_->inspect([this, input, reply](core::Engine& engine, SqliteJournal&) {
      const auto decision = engine.preview(input);
      asio::post(io_, [reply, decision] { reply(response_of(decision, true)); });
    });
  turns_->submit({input}, [reply, asked](const std::vector<JournalRow>& rows) {
    reply(find_answer(rows, asked));
  });
}

void Daemon::ask_run(const wire::Request& request, const std::string& by, Reply reply) {
  const auto path = request.arguments.find("path");
  if (path == request.arguments.end() || !path->second.starts_with('/'))
    return reply(refuse("run wants the absolute path of RUN.yaml in arguments.path"));
  errands_->post(
      [this, text = request.text, file = path->second, by, reply, dry_run = request.dry_run] {
        auto context = schema_context(foundation_.state_directory);
        context.file = context.config_path = file;
        auto checked = configs::check_run_config(text, context, world());
        asio::post(io_, [this, checked = std::move(checked), by, reply, dry_run] {
          if (checked.file.errors.empty())
            return put_under_supervision(checked.file.policy, by, dry_run, reply);
          Json errors = Json::array();
          for (const auto& error : checked.file.errors) errors.push_back(error.text());
          auto response = refuse(error_lines(checked.file.errors));
          response.data = {{"errors", errors}};
          reply(response);
        });
      });
}

void Daemon::put_under_supervision(core::RunPolicy policy, const std::string& by, bool dry_run,
                                   Reply reply) {
  const auto known = runs_.find(policy.run);
  const bool fresh = known == runs_.end();
  const bool changed = !fresh && !(known->second.policy == policy);
  if (!fresh && known->second.policy.directory != policy.directory)
    return reply(
        refuse(fmt::format("{} lives in {}; a run cannot move: give the new one a new name",
                           policy.run.text, known->second.policy.directory)));
  for (const auto& [name, run] : runs_)
    if (fresh && run.policy.directory == policy.directory)
      return reply(refuse(shared_directory(policy.directory, name)));
  Json data{{"run", policy.run.text},
            {"directory", policy.directory},
            {"known", !fresh},
            {"changed", changed}};
  const core::RunAdded added{policy, by};
  const core::Input input{policy.run, added, {}};
  if (dry_run)
    return turns_->inspect([this, input, data, reply](core::Engine& engine, SqliteJournal&) {
      auto response = response_of(engine.preview(input), true);
      response.data.update(data);
      asio::post(io_, [reply, response] { reply(response); });
    });
  std::map<RunName, std::string> others;
  for (const auto& [name, run] : runs_)
    if (name != policy.run) others[name] = run.policy.directory;
  errands_->post([this, added, data, reply, others, state = foundation_.state_directory] {
    Status made = check_alone(added.policy.directory, others);
    if (made) made = make_run_directory(added.policy);
    if (made) made = own_run_directory(added.policy.directory, state, added.by);
    core::RunAdded seen = added;
    seen.newest = newest_generation(added.policy.directory);
    asio::post(io_, [this, made, seen, data, reply] {
      if (!made) return reply(refuse(made.error().message()));
      turns_->submit({{seen.policy.run, seen, {}}},
                     [seen, data, reply](const std::vector<JournalRow>& rows) {
                       auto response = find_answer(rows, seen);
                       response.data.update(data);
                       reply(response);
                     });
    });
  });
}

// What RUN.yaml says now: a new policy, or that the file was refused. Empty: as before. `why`: it
// is not taken. `refused`: the last time it was, so that the same policy is news.
std::optional<core::Input> Daemon::read_again(const core::RunPolicy& old, const std::string& by,
                                              bool refused, std::string& why) const {
  const std::string& path = old.config_path;
  const auto text = os::read_guarded_file(path, configs::kLargestYaml);
  if (!text) {
    why = text.error().message();
    if (!os::is_refusal(text.error())) return std::nullopt;
    return core::Input{
        old.run, core::OperatorAsked{"reload", {{"refused", why}}, {}, by, "", ""}, {}};
  }
  auto context = schema_context(foundation_.state_directory);
  context.file = context.config_path = path;
  const auto read = configs::check_run_config(*text, context, world());
  if (!read.file.errors.empty())
    why = error_lines(read.file.errors);
  else if (read.file.policy.run != old.run || read.file.policy.directory != old.directory)
    why = path + ": run and directory cannot change; the old policy stays";
  if (!why.empty() || (read.file.policy == old && !refused)) return std::nullopt;
  return core::Input{old.run, core::PolicyChanged{read.file.policy, by}, {}};
}

// Every RUN.yaml is read whole before anything changes; one that has errors keeps its old policy,
// and so does one that others may write: no person sees here what it says.
void Daemon::reload(const std::string& by, Reply reply) {
  turns_->inspect([this, by, reply](core::Engine& engine, SqliteJournal&) {
    std::set<RunName> refused;
    for (const auto& [id, alert] : engine.state().alerts)
      if (alert.kind == "policy_refused") refused.insert(alert.run);
    asio::post(io_, [this, by, reply, refused] { reload_runs(by, refused, reply); });
  });
}

void Daemon::reload_runs(const std::string& by, const std::set<RunName>& refused, Reply reply) {
  std::vector<core::RunPolicy> old;
  for (const auto& [name, run] : runs_) old.push_back(run.policy);
  errands_->post([this, old, by, refused, reply] {
    std::vector<core::Input> inputs;
    std::string errors;
    std::size_t changes = 0;
    for (const core::RunPolicy& policy : old) {
      std::string why;
      auto input = read_again(policy, by, refused.contains(policy.run), why);
      if (!why.empty()) errors += (errors.empty() ? "" : "\n") + why;
      if (!input) continue;
      const auto* changed = std::get_if<core::PolicyChanged>(&input->body);
      changes += changed != nullptr && changed->policy != policy ? 1 : 0;
      inputs.push_back(std::move(*input));
    }
    const std::string done = fmt::format("{} of {} runs have a new policy", changes, old.size());
    turns_->submit(std::move(inputs), [reply, errors, done](const std::vector<JournalRow>&) {
      reply(errors.empty() ? accept(done) : refuse(done + "; kept as they were:\n" + errors));
    });
  });
}

}  // namespace stoker::daemon
