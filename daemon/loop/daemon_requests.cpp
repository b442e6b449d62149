// Daemon, answering: the verbs of the control socket become inputs; the answer goes out once the
// journal has them.
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include "configs/schema/run_checks.hpp"
#include "core/engine/node_finder.hpp"
#include "daemon/loop/answers.hpp"
#include "daemon/loop/daemon.hpp"
#include "daemon/loop/log.hpp"
#include "daemon/loop/node_names.hpp"

namespace stoker::daemon {
namespace {

namespace asio = boost::asio;

using core::JournalRow;

// Of one run: members of its group may ask. Everything else reaches other runs, or says what
// commands the daemon's user executes: it belongs to that user alone.
constexpr std::array kRunVerbs{"save",   "stop",    "kill",     "pause",
                               "resume", "restart", "rollback", "stacks"};
constexpr std::array kSiteVerbs{"exclude", "include", "ack", "silence"};
constexpr std::array kNodeVerbs{"exclude", "include"};  // the others name no nodes
constexpr std::array kListVerbs{"forget", "rename"};    // the list of runs, and one of them
constexpr std::size_t kMostNodes = 10000;
constexpr Duration kRunPatience = 4s;  // the client waits five

template <std::size_t N>
bool is_one_of(const std::array<const char*, N>& names, const std::string& verb) {
  return std::find(names.begin(), names.end(), verb) != names.end();
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
  if (request.verb == "run") return ask_run(request, by, kRunPatience, reply);
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
  errands_.post("nodes", [this, request, by, reply, places] {
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

}  // namespace stoker::daemon
