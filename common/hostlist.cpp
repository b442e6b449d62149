#include "common/hostlist.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <tuple>

namespace stoker {
namespace {

constexpr std::size_t kMaxNodes = 100000;

struct Reader {
  std::string_view text;
  std::size_t at = 0;

  [[nodiscard]] bool done() const { return at >= text.size(); }
  [[nodiscard]] char peek() const { return done() ? '\0' : text[at]; }
  [[nodiscard]] Unexpected bad(std::string_view why) const {
    return fail(fmt::format("hostlist, column {}: {}", at + 1, why),
                std::string(text.substr(0, 80)), "write for example n[001-004,7]");
  }
};

struct Number10 {
  std::uint64_t value = 0;
  std::size_t width = 0;
};

std::optional<Number10> read_number(Reader& in) {
  Number10 n;
  const char* begin = in.text.data() + in.at;
  const char* end = in.text.data() + in.text.size();
  const auto [after, error] = std::from_chars(begin, end, n.value);
  if (error != std::errc{} || after - begin > 12) return std::nullopt;
  n.width = static_cast<std::size_t>(after - begin);
  in.at += n.width;
  return n;
}

// What stands in one bracket: "001-004,7" are two ranges.
struct Range {
  std::uint64_t first = 0, last = 0;
  std::size_t width = 0;
};
Result<std::vector<Range>> read_bracket(Reader& in) {
  std::vector<Range> ranges;
  std::uint64_t count = 0;
  while (true) {
    const auto first = read_number(in);
    if (!first) return in.bad("expected a number");
    auto last = first;
    if (in.peek() == '-') {
      ++in.at;
      last = read_number(in);
      if (!last) return in.bad("expected the end of a range");
    }
    if (last->value < first->value) return in.bad("range runs backwards");
    if (last->value - first->value >= kMaxNodes) return in.bad("range too long");
    ranges.push_back({first->value, last->value, first->width});
    count += last->value - first->value + 1;
    if (count > kMaxNodes) return in.bad("more than 100000 nodes");
    if (in.peek() == ',') {
      ++in.at;
      continue;
    }
    if (in.peek() != ']') return in.bad("expected ']' or ','");
    ++in.at;
    return ranges;
  }
}

void append_number(std::string& name, std::uint64_t value, std::size_t width) {
  std::array<char, 20> digits{};
  const char* end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const auto length = static_cast<std::size_t>(end - digits.data());
  if (length < width) name.append(width - length, '0');
  name.append(digits.data(), length);
}

// Each of `names` with each number of the bracket; false: too many.
bool multiply(std::vector<std::string>& names, const std::vector<Range>& ranges) {
  std::uint64_t count = 0;
  for (const Range& range : ranges) count += range.last - range.first + 1;
  if (names.size() * count > kMaxNodes) return false;
  std::vector<std::string> product;
  product.reserve(names.size() * count);
  for (const std::string& name : names)
    for (const Range& range : ranges)
      for (std::uint64_t v = range.first; v <= range.last; ++v)
        append_number(product.emplace_back(name), v, range.width);
  names = std::move(product);
  return true;
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// One name, which may have several brackets: "rack[1-2]n[01-02]".
Result<std::vector<std::string>> read_name(Reader& in) {
  std::vector<std::string> names{""};
  const std::size_t begin = in.at;
  while (!in.done() && in.peek() != ',') {
    if (in.peek() == '[') {
      ++in.at;
      STOKER_TRY(ranges, read_bracket(in));
      if (!multiply(names, ranges)) return in.bad("more than 100000 nodes");
    } else if (is_name_char(in.peek())) {
      for (auto& name : names) name += in.peek();
      ++in.at;
    } else {
      return in.bad("character that no node name has");
    }
  }
  if (in.at == begin) return in.bad("empty name");
  return names;
}

struct Split {
  std::string_view prefix, digits;  // of the name
};
Split split_name(std::string_view name) {
  std::size_t at = name.size();
  while (at > 0 && name.size() - at < 9 && name[at - 1] >= '0' && name[at - 1] <= '9') --at;
  return {name.substr(0, at), name.substr(at)};
}

}  // namespace

Result<std::vector<NodeName>> expand_hostlist(std::string_view text) {
  std::vector<NodeName> nodes;
  if (text.empty()) return nodes;
  if (text.size() > (1u << 20)) return fail("hostlist longer than 1 MiB");
  Reader in{text};
  while (true) {
    STOKER_TRY(names, read_name(in));
    if (nodes.empty()) nodes.reserve(names.size());
    for (auto& name : names) nodes.emplace_back(std::move(name));
    if (nodes.size() > kMaxNodes) return in.bad("more than 100000 nodes");
    if (in.done()) return nodes;
    ++in.at;
  }
}

std::string compress_hostlist(std::vector<NodeName> nodes) {
  struct Item {
    Split split;
    std::uint64_t value;
  };
  if (!std::is_sorted(nodes.begin(), nodes.end())) std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::vector<Item> items;
  items.reserve(nodes.size());
  for (const auto& node : nodes) {
    Item item{split_name(node.text), 0};
    std::from_chars(item.split.digits.data(), item.split.digits.data() + item.split.digits.size(),
                    item.value);
    items.push_back(item);
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::forward_as_tuple(a.split.prefix, a.split.digits.size(), a.value) <
           std::forward_as_tuple(b.split.prefix, b.split.digits.size(), b.value);
  });
  std::string out;
  for (std::size_t i = 0; i < items.size();) {
    std::string ranges;
    int count = 0;
    std::size_t j = i;
    const auto same_name = [&](std::size_t k) {
      return k < items.size() && items[k].split.prefix == items[i].split.prefix &&
             items[k].split.digits.size() == items[i].split.digits.size();
    };
    while (same_name(j)) {
      std::size_t end = j;
      while (same_name(end + 1) && items[end + 1].value == items[end].value + 1) ++end;
      if (!ranges.empty()) ranges += ",";
      ranges += items[j].split.digits;
      if (end > j) ranges.append("-").append(items[end].split.digits);
      count += static_cast<int>(end - j) + 1;
      j = end + 1;
    }
    if (!out.empty()) out += ",";
    out += items[i].split.prefix;
    out += count > 1 ? "[" + ranges + "]" : ranges;
    i = j;
  }
  return out;
}

}  // namespace stoker
