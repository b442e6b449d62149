#include "wire/agent_event.hpp"

#include "common/hash.hpp"
#include "wire/orders.hpp"

namespace stoker::wire {

std::string claim_name(const Token& token, std::uint32_t task, std::uint32_t restart) {
  return token.text + "." + std::to_string(task) + "." + std::to_string(restart);
}

bool is_overtaken(const AgentBody& body, Attempt begun) {
  if (const auto* exited = std::get_if<RankExited>(&body)) return exited->attempt < begun;
  if (const auto* ended = std::get_if<AttemptEnded>(&body)) return ended->attempt < begun;
  return std::holds_alternative<AgentLost>(body) && begun.value != 0;
}

std::string format_event_line(const AgentEvent& event) {
  const std::string json = to_json_text(event);
  return json + "\t" + hex32(crc32c(json)) + "\n";
}

Result<AgentEvent> parse_event_line(std::string_view line, const std::string& object) {
  const auto tab = line.rfind('\t');
  if (tab == std::string_view::npos) return fail("event line without a checksum", object);
  const std::string_view json = line.substr(0, tab);
  if (line.substr(tab + 1) != hex32(crc32c(json)))
    return fail("event line is damaged: checksum", object);
  return from_json_text<AgentEvent>(json, object, {.bytes = 1u << 20, .depth = 16});
}

}  // namespace stoker::wire

STOKER_JSON_ONCE_SOURCE(stoker::wire::AgentEvent)
