#include "common/json.hpp"

#include <charconv>
#include <stdexcept>

namespace stoker {

namespace detail {
void throw_json(const std::string& what) {
  throw std::runtime_error(what);
}
}  // namespace detail

namespace {

// Counts nesting without parsing: enough to refuse a bomb before the recursive parser sees it.
bool deeper_than(std::string_view text, int limit) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& object, JsonLimits limits) {
  if (text.size() > limits.bytes)
    return fail("JSON of " + std::to_string(text.size()) + " bytes exceeds the limit of " +
                    std::to_string(limits.bytes),
                object);
  if (deeper_than(text, limits.depth))
    return fail("JSON nested deeper than " + std::to_string(limits.depth), object);
  try {
    return Json::parse(text);
  } catch (const std::exception& e) {
    return fail(std::string("not valid JSON: ") + e.what(), object);
  }
}

std::string dump_json(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stoker

void nlohmann::adl_serializer<stoker::JobId>::from_json(const json& j, stoker::JobId& id) {
  const auto& text = j.get_ref<const std::string&>();
  const char* end = text.data() + text.size();
  id = {};
  auto at = std::from_chars(text.data(), end, id.job);
  if (at.ec == std::errc{} && at.ptr != end && *at.ptr == '_')
    at = std::from_chars(at.ptr + 1, end, id.task);
  if (at.ec != std::errc{} || at.ptr != end) stoker::detail::throw_json("no job id: " + j.dump());
}
