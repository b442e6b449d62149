#include "common/json.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace stoker {

namespace detail {
void throw_json(const std::string& what) {
  throw std::runtime_error(what);
}
}  // namespace detail

namespace {

// What a document will be like, seen without parsing: enough to refuse a bomb before the recursive
// parser sees it. Two bytes may become a hundred, so memory has a limit beside that of the text.
struct Outlook {
  int depth = 0;
  std::size_t memory = 0;  // bytes, at most; with the share of the allocator
};

Outlook outlook(std::string_view text) {
  constexpr std::size_t kContainer = 80, kElement = 3 * sizeof(Json), kMember = 112, kText = 48;
  Outlook seen{0, text.size()};
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
      seen.memory += kText;
    } else if (c == '[' || c == '{') {
      seen.depth = std::max(seen.depth, ++depth);
      seen.memory += kContainer + kElement;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' || c == ':') {
      seen.memory += c == ',' ? kElement : kMember;
    }
  }
  return seen;
}

constexpr std::size_t kMostMemory = 384u << 20;

}  // namespace

Result<Json> parse_json(std::string_view text, const std::string& object, JsonLimits limits) {
  if (text.size() > limits.bytes)
    return fail("JSON of " + std::to_string(text.size()) + " bytes exceeds the limit of " +
                    std::to_string(limits.bytes),
                object);
  const Outlook seen = outlook(text);
  if (seen.depth > limits.depth)
    return fail("JSON nested deeper than " + std::to_string(limits.depth), object);
  if (seen.memory > kMostMemory)
    return fail("reading this JSON needs up to " + std::to_string(seen.memory >> 20) +
                    " MiB of memory; the limit is " + std::to_string(kMostMemory >> 20) + " MiB",
                object);
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
