#include "common/hostlist.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <optional>

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

// The suffixes of one bracket: "001-004,7" -> "001".."004","7".
Result<std::vector<std::string>> read_bracket(Reader& in) {
  std::vector<std::string> out;
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
    for (std::uint64_t v = first->value; v <= last->value; ++v)
      out.push_back(fmt::format("{:0{}}", v, first->width));
    if (out.size() > kMaxNodes) return in.bad("more than 100000 nodes");
    if (in.peek() == ',') {
      ++in.at;
      continue;
    }
    if (in.peek() != ']') return in.bad("expected ']' or ','");
    ++in.at;
    return out;
  }
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
      STOKER_TRY(suffixes, read_bracket(in));
      if (names.size() * suffixes.size() > kMaxNodes) return in.bad("more than 100000 nodes");
      std::vector<std::string> product;
      for (const auto& name : names)
        for (const auto& suffix : suffixes) product.push_back(name + suffix);
      names = std::move(product);
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
  std::string prefix;
  std::string digits;
};
Split split_name(const std::string& name) {
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
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::vector<Item> items;
  for (const auto& node : nodes) {
    Item item{split_name(node.text), 0};
    std::from_chars(item.split.digits.data(), item.split.digits.data() + item.split.digits.size(),
                    item.value);
    items.push_back(std::move(item));
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::tuple(a.split.prefix, a.split.digits.size(), a.value) <
           std::tuple(b.split.prefix, b.split.digits.size(), b.value);
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
      if (end > j) ranges += "-" + items[end].split.digits;
      count += static_cast<int>(end - j) + 1;
      j = end + 1;
    }
    if (!out.empty()) out += ",";
    out += items[i].split.prefix + (count > 1 ? "[" + ranges + "]" : ranges);
    i = j;
  }
  return out;
}

}  // namespace stoker
