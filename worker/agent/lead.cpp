// Gathering the agents, their links and reports, and the goodbye.
#include "worker/agent/lead.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <poll.h>

#include "common/os/files.hpp"
#include "common/overloaded.hpp"
#include "worker/agent/patience.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kGatherEnough = 10s;  // then spares that have not come are not waited for
constexpr Duration kGatherLimit = 60s;
constexpr Duration kSilence = 10s;
constexpr Duration kClosedGrace = 1s;   // a closed connection: its guardians need no longer
constexpr Duration kSilentGrace = 12s;  // a silent one: it gives up by itself after 10 s
constexpr Duration kGoodbyeLimit = 15s;

}  // namespace

Lead::Lead(LeadWiring wiring, Minted minted, const std::optional<wire::Control>& before)
    : wiring_(wiring),
      loop_(wiring.loop),
      context_(wiring.context),
      start_(std::move(minted.start)),
      directory_(generation_directory(wiring.context, start_.generation)),
      events_(directory_ + "/lead.jsonl"),
      logs_({}, [this, alive = alive_](const std::string& text) {
        loop_.post([this, alive, text] {
          if (*alive) notice(text);
        });
      }) {
  if (before) done_ = *before;
  done_.halt.clear();
  paroled_.insert(start_.orders.bench.begin(), start_.orders.bench.end());
  done_.level = wire::Level::Run;
  done_.exclude.clear();
  epoch_ = std::max(start_.orders.epoch, done_.epoch);
  chosen_ = ChosenCheckpoint{minted.load, start_.iteration, minted.damaged, ""};
  for (const NodeName& node : start_.nodes) followers_[node];
  followers_[context_.node].joined = true;
}

Lead::~Lead() {
  *alive_ = false;
  for (Loop::Timer* timer : {&orphan_timer_, &beat_timer_, &limit_timer_}) loop_.cancel(*timer);
}

void Lead::notice(std::string text) {
  tell(wire::Notice{context_.node, std::move(text)});
}

Status Lead::begin() {
  began_ = monotonic_now();
  wire::GenerationStarted first;
  first.generation = start_.generation;
  first.parent = start_.parent;
  first.iteration = start_.iteration;
  first.token = start_.token;
  first.job = start_.job;
  first.restart = start_.restart;
  first.order = start_.orders.number;
  first.nodes = start_.nodes;
  first.boot_id = os::boot_id();
  first.digests = start_.orders.digests;
  first.asked = wire::Asked{done_.save, done_.stacks, done_.restart};
  tell(std::move(first));
  tell(wire::AgentJoined{context_.node, os::host_name(), os::boot_id(), ::getpid()});
  if (followers_.size() > 1) STOKER_TRY_STATUS(open_door());
  NodeWiring wiring{loop_, context_, wiring_.watchmen, logs_, {}, {}};
  wiring.report = [this](NodeReport report) { on_report(context_.node, std::move(report)); };
  wiring.merged = [this](std::string_view line) { logs_.append(directory_ + "/main.log", line); };
  node_ = std::make_unique<Node>(std::move(wiring), start_);
  const auto posted = [this, alive = alive_](auto handler) {
    return [this, alive, handler](const auto& value) {
      loop_.post([this, alive, handler, value] {
        if (*alive) (this->*handler)(value);
      });
    };
  };
  ControlSink sink;
  sink.control = posted(&Lead::on_control);
  sink.left = posted(&Lead::on_switch);
  sink.notice = [this, alive = alive_](const std::string& text) {
    loop_.post([this, alive, text] {
      if (*alive) notice(text);
    });
  };
  control_watch_ = std::make_unique<ControlWatch>(context_.run_directory, std::move(sink));
  if (context_.end) {
    const WallTime when = exit_before(start_.orders, *context_.end, start_.at);
    limit_timer_ = loop_.after(when - wall_now(), [this] { save_and_leave("the time limit"); });
  }
  beat_timer_ = loop_.after(wire::beat_every(start_.orders.hang_floor), [this] { beat(); });
  make_pruner();
  gather();
  return ok();
}

bool Lead::reachable(const NodeName& node) const {
  if (node == context_.node) return true;
  const auto found = followers_.find(node);
  return found != followers_.end() && found->second.link && !found->second.link->is_broken();
}

void Lead::gather() {
  if (stage_ != Stage::Gathering) return;
  const bool all = std::all_of(followers_.begin(), followers_.end(),
                               [](const auto& f) { return f.second.joined; });
  const bool enough = eligible_nodes().size() >= start_.orders.nodes;
  const Duration waited = monotonic_now() - began_;
  if (all || (enough && waited > kGatherEnough)) return begin_attempt("first start");
  if (waited > kGatherLimit)
    leave(1, fmt::format("only {} of {} nodes have an agent after {}", eligible_nodes().size(),
                         start_.orders.nodes, format_duration(kGatherLimit)));
}

// Listens where the other nodes look for us, and tells them where and with what secret.
Status Lead::open_door() {
  const std::string address = context_.address_of(context_.node);
  const std::string secret = random_secret();
  Door::Wiring wiring{loop_, {}, {}, {}};
  wiring.expects = [this](const NodeName& node) {
    return node != context_.node && followers_.contains(node);
  };
  wiring.known = [this](const Hello& hello, std::unique_ptr<Link> link) {
    on_known(hello, std::move(link));
  };
  wiring.notice = [this](std::string text) { notice(std::move(text)); };
  door_ = std::make_unique<Door>(std::move(wiring), secret);
  STOKER_TRY_STATUS(door_->open(address, followers_.size()));
  const LeadAddress published{1, context_.node, address, door_->port(), secret};
  return once_there_is_room(context_.run_directory, [&] {
    return os::replace_file(lead_address_path(directory_), to_json_text(published),
                            os::Durability::Synced, 0600);
  });
}

void Lead::on_known(const Hello& hello, std::unique_ptr<Link> link) {
  const NodeName node = hello.node;
  Link::Events events;
  events.frame = [this, node](const Frame& frame) { on_frame(node, frame); };
  events.broken = [this, alive = alive_](const std::string&) {
    if (*alive) check_silence();
  };
  link->replace_events(std::move(events));
  Follower& f = followers_.at(node);
  if (f.link)  // the old one may be inside its callback: destroyed later
    loop_.post([old = std::shared_ptr<Link>(std::move(f.link))] {});
  f.link = std::move(link);
  const bool back = f.joined;
  f.joined = true;
  f.told_lost = false;
  f.gone_at.reset();
  tell(wire::AgentJoined{node, hello.host, hello.boot_id, hello.pid});
  if (back) notice(fmt::format("agent of {} is back", node.text));
  f.link->send_message(NodeCommand(Welcome{directory_ + "/start.json"}));
  gather();
}

void Lead::on_frame(const NodeName& node, const Frame& frame) {
  if (frame.kind == 'l') return logs_.append(directory_ + "/main.log", frame.content);
  auto report = from_json_text<NodeReport>(frame.content, "report of " + node.text,
                                           {.bytes = kFrameLimit, .depth = 24});
  if (!report) return notice(report.error().message().substr(0, 512));
  on_report(node, std::move(*report));
}

void Lead::on_report(const NodeName& node, NodeReport report) {
  Follower& follower = followers_[node];
  std::visit(
      Overloaded{[this](const PortChosen& r) {
                   if (stage_ != Stage::AskingPort || r.attempt != attempt_) return;
                   if (r.error.empty()) return start_ranks(r.port);
                   leave(1, r.error);
                 },
                 [this](const RankGone& r) { on_rank_gone(r); },
                 [&](const NodeClear& r) {
                   if (r.attempt != attempt_) return;
                   follower.clear = true;
                   if (!r.stuck.empty()) {
                     stuck_ = true;
                     notice(fmt::format("cannot be killed on {}: {}", node.text, r.stuck));
                   }
                   check_end();
                 },
                 [&](NodeBeat& r) {
                   follower.standbys = r.standbys;
                   if (r.attempt != attempt_) r.ranks.clear();  // ages of ranks that are gone
                   // Completed iterations add up until they are told.
                   if (r.ranks.size() == follower.samples.ranks.size())
                     for (std::size_t i = 0; i < r.ranks.size(); ++i) {
                       r.ranks[i].completed += follower.samples.ranks[i].completed;
                       wire::merge(follower.samples.ranks[i].losses, r.ranks[i].losses);
                       r.ranks[i].losses = follower.samples.ranks[i].losses;
                     }
                   follower.samples = {std::move(r.ranks), r.free_memory_bytes, r.free_shm_bytes, 0,
                                       r.gpu_watts};
                   follower.sampled_at = monotonic_now();
                   if (r.attempt == attempt_) fold_and_tell(true);
                 },
                 [this](Told& r) {
                   const bool saved = std::holds_alternative<wire::CheckpointSaved>(r.body);
                   tell(std::move(r.body));
                   if (saved) archiver_->look();
                   if (saved) pruner_->saved();
                 },
                 [this](const StacksDone& r) { on_stacks(r); },
                 [&](const Benched& r) { on_benched(node, r); },
                 [&](const Signalled& r) {
                   save_and_leave(fmt::format("signal {} to the agent of {}", r.signal, node.text));
                 }},
      report);
}

void Lead::send(const NodeName& node, const NodeCommand& command) {
  if (node == context_.node) return node_->perform(command);
  Follower& follower = followers_[node];
  if (follower.link) follower.link->send_message(command);
}

void Lead::check_silence() {
  const Instant now = monotonic_now();
  // Strangers in masses take links away and slow them down: that is no fault of a node.
  const bool flood = door_ && door_->flooded();
  const Duration silence = flood ? 2 * kSilence : kSilence;
  for (auto& [node, f] : followers_) {
    if (node == context_.node || !f.joined) continue;
    if (f.link) f.link->send_message(NodeCommand(Ping{}));
    if (f.link && f.link->is_broken() && !f.gone_at) {
      const Duration grace = flood ? kSilentGrace : kClosedGrace;
      f.gone_at = now + grace;
      if (flood)
        notice(
            fmt::format("the connection of {} closed while strangers flood the port: its agent "
                        "has {} to come back",
                        node.text, format_duration(grace)));
      else
        lose(node, f, "connection closed");
      loop_.after(grace + 1ms, [this, alive = alive_] {
        if (*alive) check_silence();
      });
    } else if (f.link && !f.link->is_broken() && now - f.link->heard_at() > silence) {
      if (!f.told_lost) f.gone_at = now + kSilentGrace;
      lose(node, f, fmt::format("silent for {}", format_duration(silence)));
    } else if (f.link && !f.link->is_broken() && f.told_lost) {
      f.told_lost = false;  // it speaks again on the same connection
      f.gone_at.reset();
    }
    if (f.gone_at && now >= *f.gone_at) lose(node, f, "connection closed");
    if (f.gone_at && now >= *f.gone_at && !f.clear) {
      f.clear = true;
      failed_ = true;
      f.samples.ranks.clear();
      stop_all(StopHow::Crash);
      check_end();
    }
  }
  if (stage_ == Stage::Leaving) try_goodbye();
}

void Lead::lose(const NodeName& node, Follower& follower, const std::string& why) {
  if (!follower.told_lost && stage_ != Stage::Leaving) tell(wire::AgentLost{node, why});
  follower.told_lost = true;
}

void Lead::leave(int exit_code, const std::string& why) {
  if (stage_ == Stage::Leaving) return;
  stage_ = Stage::Leaving;
  leaving_since_ = monotonic_now();
  exit_code_ = exit_code;
  goodbye_why_ = why;
  for (auto& [node, follower] : followers_)
    if (follower.link) follower.link->send_message(NodeCommand(LeaveWith{exit_code, why}));
  node_->kill_all();
  loop_.post([this, alive = alive_] {
    if (*alive) try_goodbye();
  });
}

void Lead::try_goodbye() {
  const bool others = std::any_of(followers_.begin(), followers_.end(), [this](const auto& f) {
    return f.first != context_.node && reachable(f.first);
  });
  const bool late = monotonic_now() - leaving_since_ > kGoodbyeLimit;
  if ((others || !node_->clear()) && !late) {
    loop_.after(5ms, [this, alive = alive_] {
      if (*alive) try_goodbye();
    });
    return;
  }
  if (said_goodbye_) return;
  said_goodbye_ = true;
  if (late) notice("goodbye although not all processes are proven gone");
  std::fprintf(stderr, "stoker-agent: %s\n", goodbye_why_.c_str());
  logs_.flush(5s);
  tell(wire::Goodbye{context_.node, true, exit_code_, goodbye_why_, end_});
  events_.flush(5s);
  loop_.stop();
}

void Lead::keeper_gone() {
  leave(128 + SIGKILL, "the agent's keeper was killed");
}

}  // namespace stoker::agent
