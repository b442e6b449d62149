// What the lead agent sees, as events of the machine in lead/.
#include "worker/agent/lead.hpp"

#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "worker/agent/storage/checkpoint_choice.hpp"
#include "worker/agent/storage/patience.hpp"

namespace stoker::agent {
namespace {

lead::Setup setup_of(const RunContext& context, wire::Start start) {
  lead::Setup setup;
  setup.start_path = generation_directory(context, start.generation) + "/start.json";
  setup.checkpoints = checkpoint_directory(context.run_directory, start.orders);
  setup.beat_every = wire::beat_every(start.orders.hang_floor);
  setup.node = context.node;
  setup.order = context.order;
  setup.start = std::move(start);
  return setup;
}

// The time limit of the job, less what a save takes.
std::optional<Instant> leave_at(const RunContext& context, const wire::Start& start) {
  if (!context.end) return std::nullopt;
  return monotonic_now() + (exit_before(start.orders, *context.end, start.at) - wall_now());
}

lead::State first_state(const RunContext& context, Minted minted,
                        const std::optional<wire::Control>& before) {
  const auto limit = leave_at(context, minted.start);
  const Iteration iteration = minted.start.iteration;
  return lead::initial_state(setup_of(context, std::move(minted.start)),
                             {minted.load, iteration, std::move(minted.damaged), ""}, before,
                             limit);
}

}  // namespace

Lead::Lead(LeadWiring wiring, Minted minted, const std::optional<wire::Control>& before)
    : wiring_(wiring),
      loop_(wiring.loop),
      context_(wiring.context),
      directory_(generation_directory(wiring.context, minted.start.generation)),
      state_(first_state(wiring.context, std::move(minted), before)),
      events_(directory_ + "/lead.jsonl"),
      logs_({}, [this, alive = alive_](const std::string& text) {
        loop_.post([this, alive, text] {
          if (*alive) notice(text);
        });
      }) {}

Lead::~Lead() {
  *alive_ = false;
  loop_.cancel(wake_timer_);
}

void Lead::notice(std::string text) {
  events_.write(wire::Notice{context_.node, std::move(text)});
}

Status Lead::begin() {
  feed(lead::Began{os::host_name(), os::boot_id(), ::getpid()});
  if (start().nodes.size() > 1) STOKER_TRY_STATUS(open_door());
  make_node();
  make_control_watch();
  make_pruner();
  feed(look());
  return ok();
}

void Lead::make_node() {
  NodeWiring wiring{loop_, context_, wiring_.watchmen, logs_, {}, {}};
  wiring.report = [this](NodeReport report) {
    feed(lead::NodeSaid{context_.node, std::move(report)});
  };
  wiring.merged = [this](std::string_view line) { logs_.append(directory_ + "/main.log", line); };
  node_ = std::make_unique<Node>(std::move(wiring), start());
}

void Lead::make_control_watch() {
  const auto post = [this, alive = alive_](lead::EventBody body) {
    loop_.post([this, alive, body = std::move(body)] {
      if (*alive) feed(body);
    });
  };
  ControlSink sink;
  sink.control = [post](const wire::Control& control) { post(lead::ControlRead{control}); };
  sink.left = [post](const SwitchSeen& seen) {
    post(lead::SwitchLeft{seen.verb, seen.by, seen.reason});
  };
  sink.notice = [this, alive = alive_](const std::string& text) {
    loop_.post([this, alive, text] {
      if (*alive) notice(text);
    });
  };
  control_watch_ = std::make_unique<ControlWatch>(context_.run_directory, std::move(sink));
}

void Lead::make_pruner() {
  const std::string& directory = state_.setup.checkpoints;
  const auto report = [this](wire::AgentBody body) { events_.write(std::move(body)); };
  archiver_ = std::make_unique<Archiver>(Archiver::Wiring{loop_, context_.run_directory, directory,
                                                          report, [this] { pruner_->saved(); }},
                                         start());
  pruner_ = std::make_unique<Pruner>(
      Pruner::Wiring{loop_, context_.run_directory, directory,
                     [this] { return lead::checkpoints_in_use(state_); },
                     [this](const wire::CheckpointId& id) { return archiver_->must_stay(id); },
                     report},
      start());
  archiver_->look();
}

// Listens where the other nodes look for us, and publishes where and with what secret.
Status Lead::open_door() {
  const std::string address = context_.address_of(context_.node);
  const std::string secret = random_secret();
  Door::Wiring wiring{loop_, {}, {}, {}};
  wiring.expects = [this](const NodeName& node) {
    return node != context_.node && state_.agents.contains(node);
  };
  wiring.known = [this](const Hello& hello, std::unique_ptr<Link> link) {
    on_known(hello, std::move(link));
  };
  wiring.notice = [this](std::string text) { notice(std::move(text)); };
  door_ = std::make_unique<Door>(std::move(wiring), secret);
  STOKER_TRY_STATUS(door_->open(address, state_.agents.size()));
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
  events.broken = [this, alive = alive_](const Link::Broken&) {
    if (*alive) feed(look());
  };
  link->replace_events(std::move(events));
  std::unique_ptr<Link>& place = links_[node];
  if (place)  // the old one may be inside its callback: destroyed later
    loop_.post([old = std::shared_ptr<Link>(std::move(place))] {});
  place = std::move(link);
  feed(lead::AgentConnected{node, hello.host, hello.boot_id, hello.pid});
}

void Lead::on_frame(const NodeName& node, const Frame& frame) {
  if (frame.kind == 'l') return logs_.append(directory_ + "/main.log", frame.content);
  auto report = from_json_text<NodeReport>(frame.content, "report of " + node.text,
                                           {.bytes = kFrameLimit, .depth = 24});
  if (!report) return notice(report.error().message().substr(0, 512));
  feed(lead::NodeSaid{node, std::move(*report)});
}

void Lead::on_signal(int signal) {
  feed(lead::Signal{signal, ::strsignal(signal)});
}

void Lead::keeper_gone() {
  feed(lead::KeeperGone{});
}

lead::Tick Lead::look() const {
  lead::Tick tick;
  tick.links.reserve(links_.size());
  for (const auto& [node, link] : links_)
    tick.links.push_back({node, !link->is_broken(), link->heard_at()});
  tick.flooded = door_ && door_->flooded();
  tick.own_clear = !node_ || node_->clear();
  tick.archived = !archiver_ || archiver_->settled();
  return tick;
}

void Lead::feed(lead::EventBody body) {
  waiting_.push_back(std::move(body));
  if (stepping_) return;
  stepping_ = true;
  while (!waiting_.empty()) {
    lead::Event event{monotonic_now(), wall_now(), std::move(waiting_.front())};
    waiting_.pop_front();
    lead::Step step = lead::step(std::move(state_), std::move(event));
    state_ = std::move(step.state);
    for (lead::Action& action : step.actions) std::visit([this](auto& a) { perform(a); }, action);
  }
  stepping_ = false;
  arm();
}

void Lead::arm() {
  const auto wake = lead::wake_at(state_);
  if (wake && wake_timer_ != 0 && *wake == wake_at_) return;
  loop_.cancel(wake_timer_);
  if (!wake) return;
  wake_at_ = *wake;
  wake_timer_ = loop_.after(*wake - monotonic_now(), [this] {
    wake_timer_ = 0;
    feed(look());
  });
}

}  // namespace stoker::agent
