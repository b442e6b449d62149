// The follower's life. See follower.hpp.
#include "worker/agent/link/follower.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/printable.hpp"
#include "worker/agent/aside.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kFirstLimit = 120s;  // for the lead to mint the generation
constexpr Duration kSilence = 10s;
constexpr Duration kLookEvery = 50ms;
constexpr Duration kLeaveLimit = 15s;
constexpr Duration kLinesEvery = 20ms;
constexpr std::size_t kLinesBytes = 64u << 10;

Hello hello_of(const RunContext& context) {
  Hello hello;
  hello.build = STOKER_VERSION;
  hello.node = context.node;
  hello.host = os::host_name();
  hello.boot_id = os::boot_id();
  hello.pid = ::getpid();
  hello.nonce = random_secret();
  return hello;
}

}  // namespace

Follower::Follower(Loop& loop, const RunContext& context, Watchmen watchmen)
    : loop_(loop), context_(context), watchmen_(std::move(watchmen)) {}

Follower::~Follower() {
  *alive_ = false;
  loop_.cancel(lines_timer_);
  loop_.cancel(tick_timer_);
}

void Follower::begin() {
  tick();
  look_for_lead(kFirstLimit);
}

// A thread: the run directory may hang. Opens what it finds each time, until the limit.
void Follower::look_for_lead(Duration limit) {
  run_aside([this, alive = alive_, limit, &loop = loop_, context = context_] {
    const Instant deadline = monotonic_now() + limit;
    std::string last = "the lead has not minted a generation";
    while (monotonic_now() < deadline && *alive) {
      const auto start = find_generation(context);
      if (start) {
        const auto lead = read_lead_address(context.run_directory, start->generation);
        auto socket =
            lead ? connect_tcp(lead->address, lead->port, 2s) : Result<os::Fd>(fail(lead.error()));
        auto keys = socket ? knock(*socket, {lead->secret, hello_of(context)}, kHelloTime)
                           : Result<SessionKeys>(fail(socket.error()));
        if (keys) {
          auto found = std::make_shared<Found>(Found{*start, std::move(*socket), *keys});
          loop.post([this, alive, found] {
            if (*alive) on_found(found);
          });
          return;
        }
        last = keys.error().message();
        if (socket) last = fmt::format("{}:{}: {}", lead->address, lead->port, last);
      }
      std::this_thread::sleep_for(kLookEvery);
    }
    loop.post([this, alive, last] {
      if (*alive) give_up(last);
    });
  });
}

void Follower::make_node(const wire::Start& start) {
  start_ = start;
  logs_ = std::make_unique<LogWriter>(LogLimits{}, [this, alive = alive_](const std::string& text) {
    loop_.post([this, alive, text] {
      if (*alive) report(NodeEvent{wire::Notice{context_.node, text}});
    });
  });
  NodeWiring wiring{loop_, context_, watchmen_, *logs_, {}, {}};
  wiring.report = [this](NodeReport r) { report(std::move(r)); };
  wiring.merged = [this](std::string_view line) { merged(line); };
  node_ = std::make_unique<Node>(std::move(wiring), start);
}

void Follower::on_found(std::shared_ptr<Found> found) {
  if (leaving_) return;
  Link::Events events;
  events.frame = [this](const Frame& frame) { on_frame(frame); };
  events.broken = [this, alive = alive_](const Link::Broken& broken) {
    if (*alive) on_lost(broken.why);
  };
  link_ = std::make_unique<Link>(loop_, std::move(found->socket), std::move(events));
  link_->secure({Seal(found->keys.to_lead), Seal(found->keys.to_follower)});
  if (!node_)
    make_node(found->start);
  else
    node_->report_again();
}

void Follower::on_frame(const Frame& frame) {
  const auto command = from_json_text<NodeCommand>(frame.content, "command of the lead",
                                                   {.bytes = kFrameLimit, .depth = 16});
  if (!command) return report(NodeEvent{wire::Notice{context_.node, command.error().message()}});
  if (const auto* bye = std::get_if<LeaveWith>(&*command)) return leave(bye->exit_code, bye->why);
  node_->perform(*command);
}

void Follower::on_lost(const std::string& why) {
  link_.reset();
  if (leaving_) return;
  if (!events_ && start_)
    events_ = std::make_unique<EventLog>(
        fmt::format("{}/agents/{}.jsonl", generation_directory(context_, start_->generation),
                    context_.node.text));
  if (events_) events_->write(wire::AgentLost{context_.lead, "the lead: " + why});
  look_for_lead(kLeadReturns);
}

void Follower::tick() {
  tick_timer_ = loop_.after(1s, [this] { tick(); });
  if (!link_ || link_->is_broken()) return;
  // A follower that stood still (its job was suspended) has not listened.
  const Instant heard = std::max(link_->heard_at(), loop_.awake_since());
  if (monotonic_now() - heard > kSilence) {
    link_.reset();
    on_lost("silent for " + format_duration(kSilence));
  }
}

void Follower::give_up(const std::string& why) {
  if (leaving_) return;
  leave(1, "the lead agent is gone: " + why);
}

void Follower::leave(int exit_code, const std::string& why) {
  if (leaving_) return;
  leaving_ = true;
  leaving_since_ = monotonic_now();
  exit_code_ = exit_code;
  why_ = why;
  if (node_) node_->kill_all();
  loop_.post([this, alive = alive_] {
    if (*alive) try_leave();
  });
}

void Follower::try_leave() {
  const bool late = monotonic_now() - leaving_since_ > kLeaveLimit;
  if (node_ && !node_->clear() && !late) {
    loop_.after(5ms, [this, alive = alive_] {
      if (*alive) try_leave();
    });
    return;
  }
  if (said_goodbye_) return;
  said_goodbye_ = true;
  tell_stderr("stoker-agent: " + why_);
  flush_lines();
  if (logs_) logs_->flush(5s);
  if (events_) {
    events_->write(wire::Goodbye{context_.node, false, exit_code_, why_});
    events_->flush(5s);
  }
  link_.reset();  // its end shows the lead that everything here is gone
  loop_.stop();
}

void Follower::report(NodeReport report) {
  if (link_ && !link_->is_broken()) {
    if (!lines_.empty() && std::holds_alternative<RankGone>(report)) flush_lines();
    link_->send_message(report);
    return;
  }
  if (!events_) return;
  if (const auto* gone = std::get_if<RankGone>(&report)) events_->write(gone->exit);
  if (const auto* told = std::get_if<NodeEvent>(&report)) events_->write(told->body);
}

void Follower::merged(std::string_view line) {
  lines_.append(line);
  if (lines_.size() >= kLinesBytes) return flush_lines();
  if (lines_timer_ == 0) lines_timer_ = loop_.after(kLinesEvery, [this] { flush_lines(); });
}

void Follower::flush_lines() {
  loop_.cancel(lines_timer_);
  if (link_ && !lines_.empty()) link_->send('l', lines_);
  lines_.clear();
}

void Follower::on_signal(int signal) {
  if (link_ && !link_->is_broken()) return report(Signalled{signal});
  leave(1, fmt::format("signal {} while the lead is gone", signal));
}

void Follower::keeper_gone() {
  leave(128 + SIGKILL, "the agent's keeper was killed");
}

}  // namespace stoker::agent
