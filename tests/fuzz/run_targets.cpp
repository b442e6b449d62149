// A run's files and its processes: what a colleague may write, what strangers may send to the ports
// and sockets, what a person configures.
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/remote/range_headers.hpp"
#include "common/hash.hpp"
#include "configs/schema/run_schema.hpp"
#include "configs/schema/train_schema.hpp"
#include "daemon/http/web_request.hpp"
#include "embedded/requests.hpp"
#include "recipe/schedule/csv.hpp"
#include "recipe/schedule/validate.hpp"
#include "tests/fuzz/target.hpp"
#include "wire/agent_event.hpp"
#include "wire/checkpoint_manifest.hpp"
#include "wire/control.hpp"
#include "wire/end_mark.hpp"
#include "wire/heartbeat_page.hpp"
#include "wire/orders.hpp"
#include "wire/probe_answer.hpp"
#include "wire/sinks.hpp"
#include "wire/site.hpp"
#include "wire/socket.hpp"
#include "wire/status.hpp"
#include "worker/agent/link/handshake.hpp"
#include "worker/agent/link/seal.hpp"
#include "worker/agent/link/star.hpp"

namespace stoker::fuzz {
namespace {

// What was read is written as it would be sent on, and that is read as the same.
template <class T>
void read_as(std::string_view bytes, JsonLimits limits) {
  const auto read = from_json_text<T>(bytes, "fuzz", limits);
  if (!read) return must(!read.error().message().empty(), "an error says what is wrong");
  const std::string written = to_json_text(*read);
  const auto again = from_json_text<T>(written, "fuzz", {64u << 20, 64});
  must(again && to_json_text(*again) == written, "what was written is read as it was");
}

// With the checksum that it has, and with the right one.
void agent_event(std::string_view bytes) {
  (void)wire::parse_event_line(bytes, "fuzz");
  (void)wire::parse_event_line(std::string(bytes) + "\t" + hex32(crc32c(bytes)), "fuzz");
}

// Before the sender is known: its frames in pieces of any size, and what the lead answers.
void star_frames(std::string_view bytes) {
  const auto frames = [&](std::size_t piece) {
    std::vector<std::pair<char, std::string>> all;
    agent::FrameReader reader(agent::kHelloLimit);
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      if (!reader.feed(bytes.substr(at, piece))) break;
      while (auto frame = reader.next()) all.emplace_back(frame->kind, std::move(frame->content));
    }
    return all;
  };
  const auto whole = frames(bytes.size() + 1), pieces = frames(7);
  for (std::size_t i = 0; i < std::min(whole.size(), pieces.size()); ++i)
    must(whole[i] == pieces[i], "the same frames, as far as both go");
  agent::LeadHandshake lead("secret", std::string(agent::kNonceBytes, 'n'), Instant{});
  for (const auto& [kind, content] : pieces) {
    const auto answer = lead.take({kind, content}, Instant{});
    must(!answer || !answer->empty(), "an unauthenticated peer is not known");
    if (!answer) break;
  }
}
// One who has the secret: a hello of any content, then frames whose seal is broken or right.
void star_session(std::string_view bytes) {
  const std::string nonce(agent::kNonceBytes, 'n');
  agent::LeadHandshake lead("secret", nonce, Instant{});
  (void)lead.take({'h', agent::mac_of("secret", {"knock", bytes}) + std::string(bytes)}, {});
  agent::Seal out("key"), in("key");
  agent::Frame sealed{'j', std::string(bytes)};
  sealed.content += out.close('j', bytes);
  must(in.open(sealed) && sealed.content == bytes, "a sealed frame opens");
  agent::Frame forged{'j', std::string(bytes)};
  must(!in.open(forged), "a frame without a seal does not open");
  agent::FrameReader reader;
  (void)reader.feed(bytes);
  while (reader.next()) continue;
}
void node_report(std::string_view bytes) {
  read_as<agent::NodeReport>(bytes, {});
}
void node_command(std::string_view bytes) {
  read_as<agent::NodeCommand>(bytes, {});
}

void control_socket(std::string_view bytes) {
  read_as<wire::Request>(bytes, {1u << 20, 16});
  read_as<wire::Response>(bytes, {});
}
void embedded_request(std::string_view bytes) {
  read_as<embedded::Request>(bytes, {embedded::kMaxRequestBytes, 32});
  read_as<embedded::Answer>(bytes, {embedded::kMaxAnswerBytes, 32});
}

// The same bytes as each of the files: one that is exchanged for another is refused or harmless.
void orders(std::string_view bytes) {
  read_as<wire::Orders>(bytes, {});
  read_as<wire::Start>(bytes, {});
  read_as<wire::Claim>(bytes, {});
}
void control(std::string_view bytes) {
  read_as<wire::Control>(bytes, {1u << 20, 16});
  read_as<wire::EndMark>(bytes, {64u << 10, 8});
  read_as<wire::SwitchBody>(bytes, {4096, 8});
  read_as<wire::ProbeAnswer>(bytes, {});
  read_as<agent::LeadAddress>(bytes, {});
}
void manifest(std::string_view bytes) {
  read_as<wire::Manifest>(bytes, {16u << 20, 16});
}

// A training owns the page and may write what it likes while the agent reads.
void heartbeat(std::string_view bytes) {
  constexpr std::size_t kFront = 256, kRing = 4096;
  std::string page(wire::kHeartbeatBytes, '\0');
  const auto front = bytes.substr(0, kFront), ring = bytes.substr(front.size());
  page.replace(0, front.size(), front);
  page.replace(kRing, std::min(ring.size(), kRing), ring.substr(0, kRing));
  const auto opened = wire::HeartbeatPage::open(scratch_file("page", page));
  if (!opened) return;
  if (const auto beat = opened->read()) must(!name_of(beat->phase).empty(), "a phase has a name");
  must(!name_of(opened->leave()).empty(), "a level has a name");
  must(opened->collectives().size() <= 64, "hostile content is bounded");
}

// What a client reads in the state directory of another user.
void published(std::string_view bytes) {
  read_as<wire::StatusDocument>(bytes, {});
  read_as<wire::SiteDocument>(bytes, {});
  read_as<wire::PublishedEvent>(bytes, {});
  read_as<wire::PublishedNode>(bytes, {});
  read_as<std::vector<wire::FailingSink>>(bytes, {});
}

// A request line's target, then its Cookie and If-None-Match.
void web_request(std::string_view bytes) {
  const auto end = std::min(bytes.find('\n'), bytes.size());
  const auto read = daemon::parse_target(bytes.substr(0, end));
  if (!read) must(!read.error().message().empty(), "an error says what is wrong");
  if (read)
    for (const auto& [name, value] : read->query)
      must((name + value).find('\n') == std::string::npos, "a value is one line");
  const auto header = bytes.substr(std::min(end + 1, bytes.size()));
  const auto cookie = daemon::cookie_value(header, "stoker-0badcafe");
  must(cookie.empty() || header.find(cookie) != std::string_view::npos, "it was in the header");
  (void)daemon::etag_matches(header, "\"0123456789abcdef\"");
}

// A pipeline schedule from elsewhere; what is written of it is read as the same.
void schedule_csv(std::string_view bytes) {
  const auto read = recipe::parse_schedule_csv(bytes, "fuzz.csv");
  if (!read) return must(!read.error().message().empty(), "an error says what is wrong");
  const std::string written = recipe::render_schedule_csv(*read);
  const auto again = recipe::parse_schedule_csv(written, "fuzz.csv");
  must(again && recipe::render_schedule_csv(*again) == written,
       "what was written is read as it was");
  (void)recipe::validate(*read);
}

void run_yaml(std::string_view bytes) {
  configs::RunSchemaContext context;
  context.file = "RUN.yaml";
  context.config_path = "/r/RUN.yaml";
  context.state_directory = "/state";
  context.sinks = {{"exec", {"command"}, {"timeout"}}, {"webhook", {"url"}, {}}};
  const auto read = configs::read_run_config(bytes, context);
  for (const auto& error : read.errors) must(!error.message.empty(), "an error says what is wrong");
}
void train_yaml(std::string_view bytes) {
  const auto read = configs::read_train_config(bytes, "TRAIN.yaml");
  for (const auto& error : read.errors) must(!error.message.empty(), "an error says what is wrong");
}

void http_range(std::string_view bytes) {
  cli::RangeHeaders headers;
  each_line(bytes, [&](std::string_view line) { headers.take(line); });
  for (const std::string& value : {headers.answer.etag, headers.answer.modified})
    must(std::none_of(value.begin(), value.end(),
                      [](unsigned char c) { return c < 0x20 || c == 0x7f; }),
         "what is sent back in a header is one line");
}

constexpr std::array kTargets{Target{"agent_event", agent_event},
                              Target{"star_frames", star_frames},
                              Target{"star_session", star_session},
                              Target{"node_report", node_report},
                              Target{"node_command", node_command},
                              Target{"control_socket", control_socket},
                              Target{"embedded_request", embedded_request},
                              Target{"orders", orders},
                              Target{"control", control},
                              Target{"manifest", manifest},
                              Target{"heartbeat", heartbeat},
                              Target{"published", published},
                              Target{"web_request", web_request},
                              Target{"schedule_csv", schedule_csv},
                              Target{"run_yaml", run_yaml},
                              Target{"train_yaml", train_yaml},
                              Target{"http_range", http_range}};

}  // namespace

std::span<const Target> run_targets() {
  return kTargets;
}

}  // namespace stoker::fuzz
