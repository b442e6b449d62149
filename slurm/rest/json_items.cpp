#include "slurm/rest/json_items.hpp"

#include <algorithm>
#include <array>
#include <bit>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "slurm/json_shapes.hpp"

namespace stoker::slurm {
namespace {

constexpr std::size_t kDeepest = 64;
constexpr std::size_t kLargestOuter = 1u << 20;
constexpr std::size_t kMostItems = 1'000'000;
constexpr std::size_t kBlock = 64;

Unexpected bad(const std::string& what) {
  return fail("slurmrestd: " + what, "the answer", "such an answer is not used");
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto from = text.find_first_not_of(kBlank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlank) - from + 1);
}

// Whether the text ends with this key, in quotes of its own.
bool is_key(std::string_view text, std::string_view key) {
  if (!text.empty() && text.back() != '"') text = text.substr(0, text.find_last_of('"') + 1);
  if (text.size() < key.size() + 2) return false;
  const std::size_t quote = text.size() - key.size() - 2;
  return text[quote] == '"' && text.substr(quote + 1, key.size()) == key &&
         (quote == 0 || text[quote - 1] != '\\');
}

// What 64 bytes are, a bit a byte.
struct Bits {
  std::uint64_t quotes = 0, backslashes = 0;
  std::uint64_t marks = 0;  // brackets, commas, colons
};

Bits bits_of(const char* block) {
  Bits bits;
#ifdef __SSE2__
  const auto mask = [](__m128i found, int at) {
    return static_cast<std::uint64_t>(static_cast<unsigned>(_mm_movemask_epi8(found))) << at;
  };
  for (int at = 0; at < 64; at += 16) {
    const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + at));
    const __m128i braces = _mm_or_si128(part, _mm_set1_epi8(0x20));  // of brackets too
    const auto is = [](__m128i bytes, char one) {
      return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(one));
    };
    bits.quotes |= mask(is(part, '"'), at);
    bits.backslashes |= mask(is(part, '\\'), at);
    bits.marks |= mask(_mm_or_si128(_mm_or_si128(is(braces, '{'), is(braces, '}')),
                                    _mm_or_si128(is(part, ','), is(part, ':'))),
                       at);
  }
#else
  for (std::size_t at = 0; at < kBlock; ++at) {
    const std::uint64_t bit = std::uint64_t{1} << at;
    const char c = block[at];
    if (c == '"') bits.quotes |= bit;
    if (c == '\\') bits.backslashes |= bit;
    if (std::string_view("{}[],:").find(c) != std::string_view::npos) bits.marks |= bit;
  }
#endif
  return bits;
}

// Bits from each quote up to before the next one.
std::uint64_t between_pairs(std::uint64_t quotes) {
  for (unsigned shift = 1; shift < kBlock; shift *= 2) quotes ^= quotes << shift;
  return quotes;
}

// The bytes behind a backslash that is not behind one itself.
std::uint64_t behind(std::uint64_t backslashes, bool first) {
  std::uint64_t escaped = first ? 1 : 0;
  for (std::uint64_t left = backslashes & ~escaped; left != 0;) {
    const std::uint64_t one = left & -left;
    escaped |= one << 1;
    left &= ~(one | one << 1);
  }
  return escaped;
}

// The second half of a character that JSON writes as two: \udc00 to \udfff.
bool is_second_half(std::string_view text) {
  return text.size() > 3 && text.starts_with("\\u") && (text[2] | 0x20) == 'd' &&
         std::string_view("cdefCDEF").find(text[3]) != std::string_view::npos;
}

// Up to where, at most `to`, no character of the string is torn: none that is escaped, none of
// several bytes. The text goes on behind `to`.
std::size_t whole_characters(std::string_view text, std::size_t from, std::size_t to) {
  std::size_t at = from;
  for (std::size_t next = from; next <= to;) {
    if (!is_second_half(text.substr(next, 6))) at = next;
    next += text[next] != '\\' ? 1 : text.substr(next + 1).starts_with('u') ? 6 : 2;
  }
  while (at > from && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

}  // namespace

const JsonItem::Member* JsonItem::find(std::string_view key) const {
  const std::string_view all = text_;
  for (const Member& member : members_)
    if (is_key(all.substr(0, member.colon), key)) return &member;
  return nullptr;
}

std::string_view JsonItem::raw(std::string_view key) const {
  const Member* const member = find(key);
  if (member == nullptr) return {};
  return trimmed(
      std::string_view(text_).substr(member->colon + 1, member->end - member->colon - 1));
}

bool JsonItem::is_cut(std::string_view key) const {
  const Member* const member = find(key);
  return member != nullptr && member->cut;
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
  if (nesting_.size() == 1) string_at_ = outer_.size() + static_cast<std::size_t>(at + 1 - kept_);
}

void JsonItems::end_string(const char* at) {
  in_string_ = false;
  if (nesting_.size() == 1) string_end_ = outer_.size() + static_cast<std::size_t>(at - kept_);
}

// At most kLongestString bytes of it stay.
void JsonItems::cut_long_string(const char* at) {
  if (cutting_ || lost_ || place(at) - string_from_ <= kLongestString) return;
  keep(item_.text_, at);
  item_.text_.resize(whole_characters(item_.text_, string_from_, string_from_ + kLongestString));
  cutting_ = true;
  member_.cut = true;
}

void JsonItems::end_item_string(const char* quote) {
  cut_long_string(quote);
  if (cutting_) kept_ = quote;
  cutting_ = false;
}

// What there is of it is forgotten, and the member that is being read; those that follow are kept,
// for who asks whose it is.
Status JsonItems::shrink() {
  if (!is_anothers_) return bad("one of its " + list_ + " is too large");
  too_large_ = true;
  anothers_ = anothers_ || is_anothers_(item_);
  item_.text_.clear();
  item_.members_.clear();
  lost_ = true;
  return ok();
}

Status JsonItems::take_item() {
  if (item_.text_.size() > kLargestItem) STOKER_TRY_STATUS(shrink());
  if (!too_large_) return take_(item_);
  if (anothers_ || is_anothers_(item_)) return ok();
  return bad("one of its " + list_ + " is too large");
}

void JsonItems::begin_value(const char* at) {
  in_value_ = true;
  member_.colon = place(at);
}

void JsonItems::end_member(const char* at) {
  if (lost_)
    kept_ = at;
  else if (in_value_)
    item_.members_.push_back({member_.colon, place(at), member_.cut});
  member_ = {};
  lost_ = in_value_ = false;
}

Status JsonItems::open(const char* at) {
  if (nesting_.size() == kDeepest) return bad("it is nested too deeply");
  if (nesting_.empty() && *at != '{') return bad("it is no JSON object");
  if (in_list_ && !in_item_) {
    if (*at != '{') return bad(list_ + " holds something that is no object");
    if (items_ > 0 && !comma_) return bad(list_ + ": a comma is missing");
    if (++items_ > kMostItems) return bad("too many " + list_);
    in_item_ = true;
    in_value_ = cutting_ = lost_ = too_large_ = anothers_ = false;
    member_ = {};
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
  if (in_item_ && nesting_.size() == kItemDepth) {
    end_member(at);
    keep(item_.text_, at + 1);
    in_item_ = comma_ = false;
    nesting_.pop_back();
    return take_item();
  }
  nesting_.pop_back();
  if (in_list_ && nesting_.size() == 1) {
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

Status JsonItems::outside_strings(const char* at) {
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
      if (in_list_) return between_items(at);
      if (*at == '"') {
        begin_string(at);
      } else if (*at == ':' && nesting_.size() == 1) {
        keep(outer_, at);
        key_ = outer_.substr(string_at_, string_end_ - string_at_);
      }
  }
  return ok();
}

Status JsonItems::inside_item(const char*& at, const char* end) {
  while (at != end) {
    const auto size = std::min<std::size_t>(kBlock, static_cast<std::size_t>(end - at));
    std::array<char, kBlock> padded;
    const char* block = at;
    if (size < kBlock) {
      padded.fill(' ');
      std::copy(at, end, padded.begin());
      block = padded.data();
    }
    const Bits bits = bits_of(block);
    const std::uint64_t escaped = behind(bits.backslashes, escaped_);
    const std::uint64_t quotes = bits.quotes & ~escaped;
    const std::uint64_t strings = between_pairs(quotes) ^ (in_string_ ? ~std::uint64_t{0} : 0);
    if (in_string_ && quotes != 0) end_item_string(at + std::countr_zero(quotes));
    for (std::uint64_t left = bits.marks & ~strings; left != 0; left &= left - 1) {
      const char* const mark = at + std::countr_zero(left);
      const bool of_members = nesting_.size() == kItemDepth;
      if (*mark == ',') {
        if (of_members) end_member(mark);
      } else if (*mark == ':') {
        if (of_members && !in_value_) begin_value(mark);
      } else {
        STOKER_TRY_STATUS(*mark == '{' || *mark == '[' ? open(mark) : close(mark));
      }
      if (in_item_) continue;
      in_string_ = escaped_ = false;
      at = mark + 1;
      return ok();
    }
    in_string_ = (strings >> (kBlock - 1) & 1) != 0;
    escaped_ = ((bits.backslashes & ~escaped) >> (size - 1) & 1) != 0;
    if (in_string_ && quotes != 0)
      string_from_ = place(at + kBlock - std::countl_zero(quotes));  // behind its last quote
    at += size;
    if (in_string_) cut_long_string(at);
  }
  return ok();
}

Status JsonItems::feed(std::string_view part) {
  kept_ = part.data();
  const char* const end = part.data() + part.size();
  for (const char* at = part.data(); at != end;) {
    if (in_item_) {
      STOKER_TRY_STATUS(inside_item(at, end));
    } else if (!in_string_) {
      STOKER_TRY_STATUS(outside_strings(at));
      ++at;
    } else if (escaped_) {
      escaped_ = false;
      ++at;
    } else {
      at = std::find_if(at, end, [](char c) { return c == '"' || c == '\\'; });
      if (at == end) break;
      escaped_ = *at == '\\';
      if (!escaped_) end_string(at);
      ++at;
    }
  }
  if (in_item_) {
    if (!cutting_ && !lost_) keep(item_.text_, end);
    if (item_.text_.size() > kLargestItem) STOKER_TRY_STATUS(shrink());
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
