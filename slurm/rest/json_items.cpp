#include "slurm/rest/json_items.hpp"

#include <charconv>
#include <fmt/format.h>

#include "slurm/json_shapes.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kLargestItem = 4u << 20;
constexpr std::size_t kLargestOuter = 1u << 20;
constexpr std::size_t kMostItems = 1'000'000;

Unexpected bad(const std::string& what) {
  return fail("slurmrestd: " + what, "the answer", "such an answer is not used");
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto from = text.find_first_not_of(kBlank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlank) - from + 1);
}

}  // namespace

std::string_view JsonItem::raw(std::string_view key) const {
  const std::string_view all = text_;
  for (const Span& span : members_)
    if (span.key_end - span.key == key.size() && all.substr(span.key, key.size()) == key)
      return trimmed(all.substr(span.value, span.value_end - span.value));
  return {};
}

std::string JsonItem::text(std::string_view key) const {
  const std::string_view found = raw(key);
  if (found.size() < 2 || found.front() != '"') return "";
  const std::string_view inner = found.substr(1, found.size() - 2);
  if (found.back() == '"' && inner.find_first_of("\\\"") == std::string_view::npos)
    return std::string(inner);
  const auto parsed = parse_json(found, "a string of an answer");
  return parsed && parsed->is_string() ? parsed->get<std::string>() : "";
}

Json JsonItem::value(std::string_view key) const {
  const std::string_view found = raw(key);
  if (found.empty()) return nullptr;
  auto parsed = parse_json(found, "a value of an answer");
  return parsed ? *std::move(parsed) : Json(nullptr);
}

std::optional<std::uint64_t> JsonItem::number(std::string_view key) const {
  const std::string_view found = raw(key);
  if (found.empty() || found == "null") return std::nullopt;
  return number_in(value(key));
}

void JsonItems::keep(std::string& where, const char* to) {
  where.append(kept_, static_cast<std::size_t>(to - kept_));
  kept_ = to;
}

void JsonItems::begin_string(const char* at) {
  in_string_ = true;
  if (in_members() && !in_value_) member_.key = place(at) + 1;
  if (nesting_.size() == 1) string_at_ = outer_.size() + static_cast<std::size_t>(at + 1 - kept_);
}

void JsonItems::end_string(const char* at) {
  in_string_ = false;
  if (in_members() && !in_value_) member_.key_end = place(at);
  if (nesting_.size() == 1) string_end_ = outer_.size() + static_cast<std::size_t>(at - kept_);
}

void JsonItems::end_member(const char* at) {
  if (!in_value_) return;
  member_.value_end = place(at);
  item_.members_.push_back(member_);
  in_value_ = false;
}

Status JsonItems::open(const char* at) {
  if (nesting_.size() == kDeepest) return bad("it is nested too deeply");
  if (nesting_.empty() && *at != '{') return bad("it is no JSON object");
  if (in_list_ && !in_item_) {
    if (*at != '{') return bad(list_ + " holds something that is no object");
    if (items_ > 0 && !comma_) return bad(list_ + ": a comma is missing");
    if (++items_ > kMostItems) return bad("too many " + list_);
    in_item_ = true;
    in_value_ = false;
    kept_ = at;
    item_.text_.clear();
    item_.members_.clear();
  } else if (nesting_.size() == 1 && *at == '[' && key_ == list_) {
    if (was_list_) return bad(list_ + " stands there twice");
    was_list_ = in_list_ = true;
    comma_ = false;
    keep(outer_, at + 1);
  }
  nesting_ += *at;
  return ok();
}

Status JsonItems::close(const char* at) {
  if (nesting_.empty() || nesting_.back() != (*at == '}' ? '{' : '['))
    return bad("its brackets do not match");
  if (in_members()) {
    end_member(at);
    keep(item_.text_, at + 1);
    in_item_ = comma_ = false;
    nesting_.pop_back();
    return take_(item_);
  }
  nesting_.pop_back();
  if (in_list_ && !in_item_ && nesting_.size() == 1) {
    if (comma_) return bad(list_ + " ends with a comma");
    in_list_ = false;
    kept_ = at;
  }
  done_ = nesting_.empty();
  return ok();
}

Status JsonItems::between_items(const char* at) {
  if (*at != ',' || comma_ || items_ == 0) return bad(list_ + " holds something that is no object");
  comma_ = true;
  return ok();
}

Status JsonItems::outside_strings(const char*& at) {
  switch (*at) {
    case ' ':
    case '\n':
    case '\t':
    case '\r': break;
    case '{':
    case '[':
      if (done_) return bad("something follows its end");
      return open(at);
    case '}':
    case ']': return close(at);
    default:
      if (nesting_.empty())
        return bad(done_ ? "something follows its end" : "it is no JSON object");
      if (in_list_ && !in_item_) return between_items(at);
      if (*at == '"') {
        begin_string(at);
      } else if (*at == ',') {
        if (in_members()) end_member(at);
      } else if (*at == ':') {
        if (in_members() && !in_value_) {
          in_value_ = true;
          member_.value = place(at) + 1;
        } else if (nesting_.size() == 1) {
          keep(outer_, at);
          key_ = outer_.substr(string_at_, string_end_ - string_at_);
        }
      }
  }
  return ok();
}

Status JsonItems::feed(std::string_view part) {
  kept_ = part.data();
  const char* const end = part.data() + part.size();
  for (const char* at = part.data(); at != end; ++at) {
    if (!in_string_) {
      STOKER_TRY_STATUS(outside_strings(at));
      continue;
    }
    if (escaped_) {
      escaped_ = false;
      continue;
    }
    while (at != end && *at != '"' && *at != '\\') ++at;
    if (at == end) break;
    if (*at == '\\')
      escaped_ = true;
    else
      end_string(at);
  }
  if (in_item_) {
    keep(item_.text_, end);
    if (item_.text_.size() > kLargestItem) return bad("one of its " + list_ + " is too large");
  } else if (!in_list_) {
    keep(outer_, end);
    if (outer_.size() > kLargestOuter) return bad("it is too large");
  }
  return ok();
}

Result<Json> JsonItems::finish() {
  if (!done_) return bad("it is cut off");
  STOKER_TRY(document, parse_json(outer_, "an answer of slurmrestd"));
  return std::move(document);
}

}  // namespace stoker::slurm
