// Reading never stops at an error: every method adds at most one Diagnostic and leaves the default
// in place.
#include "configs/schema/yaml_reader.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace stoker::configs {
namespace {

std::string_view describe(Shape shape) {
  switch (shape) {
    case Shape::Absent: return "nothing";
    case Shape::Null: return "nothing";
    case Shape::Scalar: return "a single value";
    case Shape::Sequence: return "a list";
    case Shape::Map: return "a map";
  }
  return "nothing";
}

// Text as a YAML scalar: plain where that is safe.
std::string yaml_text(const std::string& text) {
  constexpr std::string_view kSafe =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-+%";
  const bool plain = !text.empty() && text.find_first_not_of(kSafe) == std::string::npos &&
                     text != "null" && text[0] != '-' && text[0] != '%';
  return plain ? text : dump_json(Json(text));
}

std::string describe_choice(const std::string& got, const std::vector<std::string>& names) {
  const std::string near = nearest_name(got, names);
  std::string text = fmt::format("expected one of {}, got \"{}\"", fmt::join(names, ", "), got);
  if (!near.empty()) text += fmt::format("; did you mean \"{}\"?", near);
  return text;
}

}  // namespace

YamlReader::YamlReader(std::string_view text, std::string file, YamlLimits limits)
    : file_(std::move(file)) {
  root_ = parse_yaml(text, file_, errors_, limits);
}

void YamlReader::root(const std::function<void(MapReader&)>& schema) {
  if (root_.shape != Shape::Map) {
    if (errors_.empty())
      error({1, 1}, fmt::format("expected a map, got {}", describe(root_.shape)));
    return;
  }
  MapReader map(*this, &root_, Position{1, 1}, {});
  schema(map);
  map.finish();
}

void YamlReader::error(Position at, std::string message) {
  errors_.push_back({file_, at, std::move(message)});
}

Diagnostics YamlReader::errors() const {
  Diagnostics sorted = errors_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.at < b.at; });
  return sorted;
}

Position YamlReader::position_of(const std::vector<std::string>& path) const {
  const YamlNode* node = &root_;
  for (const std::string& step : path) {
    const YamlNode* next = nullptr;
    for (std::size_t i = 0; i < node->items.size(); ++i) {
      const std::string name =
          node->shape == Shape::Map ? node->keys[i].text : "[" + std::to_string(i) + "]";
      if (name == step) next = &node->items[i];
    }
    if (next == nullptr) return {};
    node = next;
  }
  return node->at;
}

void YamlReader::remember(const std::vector<std::string>& path, std::string value, Position at) {
  const auto [known, fresh] = index_.try_emplace(path, effective_.size());
  if (!fresh) {
    effective_[known->second] = {path, std::move(value), at};
    return;
  }
  effective_.push_back({path, std::move(value), at});
}

std::string YamlReader::render_effective() const {
  std::string out;
  std::vector<std::string> before;
  const auto label = [](const std::string& step) {
    return step.starts_with('[') ? std::string("-") : yaml_text(step) + ":";
  };
  for (const EffectiveValue& value : effective_) {
    std::size_t same = 0;
    while (same < before.size() && same + 1 < value.path.size() && before[same] == value.path[same])
      ++same;
    for (; same + 1 < value.path.size(); ++same)
      out += std::string(2 * same, ' ') + label(value.path[same]) + "\n";
    const std::string line =
        std::string(2 * same, ' ') + label(value.path.back()) + " " + value.value;
    const std::string origin =
        value.at.line > 0 ? fmt::format("{}:{}", file_, value.at.line) : std::string("default");
    out += fmt::format("{:<48} # {}\n", line, origin);
    before = value.path;
    before.pop_back();
  }
  return out;
}

bool ValueReader::wrong_shape(std::string_view expected) const {
  error(fmt::format("{}: expected {}, got {}", path_.empty() ? "value" : path_.back(), expected,
                    describe(shape())));
  return false;
}

const std::string* ValueReader::scalar(std::string_view expected) const {
  if (shape() == Shape::Absent) return nullptr;
  if (shape() == Shape::Scalar) return &node_->text;
  wrong_shape(expected);
  return nullptr;
}

// One path for all scalars: absent keeps the default, anything read or kept is remembered.
template <class T, class Parse, class Show>
bool ValueReader::read_with(T& out, std::string_view expected, Parse parse, Show show) const {
  if (shape() == Shape::Absent) return remember(show(out)), true;
  const std::string* text = scalar(expected);
  if (text == nullptr) return false;
  auto value = parse(*text);
  if (!value) {
    error(fmt::format("{}: {}", path_.back(), value.error().what));
    return false;
  }
  out = *std::move(value);
  remember(show(out));
  return true;
}

bool ValueReader::read(std::string& out) const {
  return read_with(
      out, "text", [](const std::string& t) -> Result<std::string> { return t; },
      [](const std::string& t) { return yaml_text(t); });
}

bool ValueReader::read(bool& out) const {
  return read_with(out, "true or false", parse_truth,
                   [](bool b) { return std::string(b ? "true" : "false"); });
}

bool ValueReader::read(double& out) const {
  return read_with(out, "a number", parse_real, [](double d) { return fmt::format("{}", d); });
}

bool ValueReader::read(Duration& out) const {
  return read_with(
      out, "a duration like 90s or 20h",
      [](const std::string& t) -> Result<Duration> {
        auto d = parse_duration(t);
        if (!d) return fail(fmt::format("expected a duration like 90s, 10min, 20h, got \"{}\"", t));
        return d;
      },
      [](Duration d) {
        std::string text = format_duration(d);
        std::erase(text, ' ');
        const auto exact = parse_duration(text);
        return exact && *exact == d ? text : fmt::format("{}s", to_seconds(d));
      });
}

bool ValueReader::read_size(std::uint64_t& bytes) const {
  return read_with(bytes, "a size like 512MiB", parse_size, format_size);
}

bool ValueReader::read_share(double& share) const {
  return read_with(share, "a share like 5%", parse_share, format_share);
}

bool ValueReader::read_whole(std::int64_t& out, std::int64_t low, std::int64_t high) const {
  return read_with(
      out, "a whole number",
      [&](const std::string& t) -> Result<std::int64_t> {
        auto v = parse_whole(t);
        if (v && (*v < low || *v > high))
          return fail(fmt::format("{} is not between {} and {}", t, low, high));
        return v;
      },
      [](std::int64_t v) { return std::to_string(v); });
}

bool ValueReader::read_count(std::uint64_t& out, std::uint64_t high) const {
  return read_with(
      out, "a whole number",
      [&](const std::string& t) -> Result<std::uint64_t> {
        auto v = parse_count(t);
        if (v && *v > high) return fail(fmt::format("{} is larger than {}", t, high));
        return v;
      },
      [](std::uint64_t v) { return std::to_string(v); });
}

std::optional<std::size_t> ValueReader::read_choice(std::size_t current,
                                                    const std::vector<std::string>& names) const {
  std::size_t choice = current;
  const bool good = read_with(
      choice, fmt::format("one of {}", fmt::join(names, ", ")),
      [&](const std::string& t) -> Result<std::size_t> {
        const auto found = std::find(names.begin(), names.end(), t);
        if (found == names.end()) return fail(describe_choice(t, names));
        return static_cast<std::size_t>(found - names.begin());
      },
      [&](std::size_t i) { return names.at(i); });
  return good ? std::optional(choice) : std::nullopt;
}

void ValueReader::map(const std::function<void(MapReader&)>& schema) const {
  if (shape() != Shape::Absent && shape() != Shape::Map) {
    wrong_shape("a map");
    return;
  }
  MapReader nested(reader_, node_, at_, path_);
  schema(nested);
  nested.finish();
}

std::size_t ValueReader::list(const std::function<void(ValueReader&)>& item) const {
  if (shape() == Shape::Absent) return 0;
  if (shape() != Shape::Sequence) {
    wrong_shape("a list");
    return 0;
  }
  for (std::size_t i = 0; i < node_->items.size(); ++i) {
    auto path = path_;
    path.push_back("[" + std::to_string(i) + "]");
    ValueReader value(reader_, &node_->items[i], node_->items[i].at, std::move(path));
    item(value);
  }
  return node_->items.size();
}

void ValueReader::entries(const std::function<void(const YamlKey&, ValueReader&)>& entry) const {
  if (shape() == Shape::Absent) return;
  if (shape() != Shape::Map) {
    wrong_shape("a map");
    return;
  }
  for (std::size_t i = 0; i < node_->items.size(); ++i) {
    auto path = path_;
    path.push_back(node_->keys[i].text);
    ValueReader value(reader_, &node_->items[i], node_->items[i].at, std::move(path));
    entry(node_->keys[i], value);
  }
}

bool MapReader::has(std::string_view key) const {
  return node_ != nullptr && std::any_of(node_->keys.begin(), node_->keys.end(),
                                         [&](const YamlKey& k) { return k.text == key; });
}

ValueReader MapReader::at(std::string_view key) {
  asked_.emplace(key);
  auto path = path_;
  path.emplace_back(key);
  if (node_ != nullptr)
    for (std::size_t i = 0; i < node_->keys.size(); ++i)
      if (node_->keys[i].text == key)
        return {reader_, &node_->items[i], node_->items[i].at, std::move(path)};
  return {reader_, nullptr, at_, std::move(path)};
}

ValueReader MapReader::required(std::string_view key) {
  if (!has(key))
    reader_.error(at_, fmt::format("\"{}\" is missing", fmt::join(at(key).path(), ".")));
  return at(key);
}

void MapReader::check(std::string_view key, bool good, std::string_view message) {
  if (!good) at(key).error(fmt::format("{}: {}", key, message));
}

void MapReader::one_of(const std::vector<std::string>& keys, bool needed) {
  std::vector<std::string> given;
  for (const std::string& key : keys)
    if (has(key)) given.push_back(key);
  if (given.size() > 1)
    at(given[1]).error(fmt::format("\"{}\" and \"{}\" exclude each other", given[0], given[1]));
  if (given.empty() && needed)
    reader_.error(at_, fmt::format("one of {} is missing", fmt::join(keys, ", ")));
}

void MapReader::finish() {
  if (node_ == nullptr) return;
  const std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const YamlKey& key : node_->keys) {
    if (asked_.contains(key.text)) continue;
    const std::string near = nearest_name(key.text, known);
    reader_.error(key.at, near.empty() ? fmt::format("unknown key \"{}\"; known here: {}", key.text,
                                                     fmt::join(known, ", "))
                                       : fmt::format("unknown key \"{}\"; did you mean \"{}\"?",
                                                     key.text, near));
  }
}

}  // namespace stoker::configs
