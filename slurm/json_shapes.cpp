#include "slurm/json_shapes.hpp"

#include "slurm/job_state.hpp"

namespace stoker::slurm {
namespace {

constexpr std::uint64_t kNoValue = 0xfffffffe;  // slurm.h: NO_VAL and INFINITE, 32 bits

}  // namespace

std::optional<std::uint64_t> number_in(const Json& value) {
  if (value.is_object()) {
    const auto is = [&value](const char* key, bool otherwise) {
      const auto found = value.find(key);
      return found != value.end() && found->is_boolean() ? found->get<bool>() : otherwise;
    };
    if (!is("set", true) || is("infinite", false)) return std::nullopt;
    const auto inner = value.find("number");
    return inner == value.end() || inner->is_object() ? std::nullopt : number_in(*inner);
  }
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) return std::nullopt;
  const auto number = value.get<std::uint64_t>();
  return number >= kNoValue ? std::nullopt : std::optional(number);
}

std::optional<std::uint64_t> number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? std::nullopt : number_in(*found);
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<core::JobState> state_in(const Json& value) {
  if (value.is_string()) {
    const auto word = parse_state(value.get<std::string>());
    return word ? std::optional(word->state) : std::nullopt;
  }
  if (!value.is_array() || value.empty()) return std::nullopt;
  std::optional<core::JobState> state;
  for (const Json& entry : value) {
    const auto word = entry.is_string() ? parse_state(entry.get<std::string>()) : std::nullopt;
    if (!word) return std::nullopt;
    if (!state || core::is_terminal(*state)) state = word->state;
  }
  return state;
}

ExitShape exit_in(const Json& value) {
  ExitShape out;
  const auto code = value.is_object() ? value.find("return_code") : value.end();
  if (!value.is_object() || code == value.end()) {
    const auto wait_status = static_cast<int>(number_in(value).value_or(0) & 0xffff);
    out.code = wait_status >> 8;
    out.signal = wait_status & 0x7f;
    return out;
  }
  out.code = static_cast<int>(number_in(*code).value_or(0) & 0xff);
  const auto signal = value.find("signal");
  if (signal == value.end() || !signal->is_object()) return out;
  for (const char* key : {"id", "signal_id"})
    if (const auto id = number_of(*signal, key)) out.signal = static_cast<int>(*id & 0x7f);
  return out;
}

}  // namespace stoker::slurm
