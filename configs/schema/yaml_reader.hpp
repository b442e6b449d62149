// The strict reader behind RUN.yaml and TRAIN.yaml. A schema walks the file with it:
//
//   YamlReader reader(text, "run.yaml");
//   reader.root([&](MapReader& m) {
//     m.require("run", config.run);                        // must be there
//     m.read("partition", config.partition);               // else the default in `config` stays
//     m.map("hang", [&](MapReader& h) { h.read("floor", config.hang.floor); });
//     m.at("nodes") ...                                    // a value of several shapes
//     m.check("floor", config.floor > 0s, "must be longer than 0s");
//   });
//   if (!reader.ok()) print(reader.errors());              // all of them, by position
//
// Every key that was not asked for is an error with the nearest name. A failed read leaves the
// default and adds one error. Every value read is remembered with its origin for `--effective`,
// defaults too: pass the default in the out parameter.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.hpp"
#include "common/json.hpp"
#include "common/time.hpp"
#include "configs/schema/diagnostic.hpp"
#include "configs/schema/yaml_scalars.hpp"
#include "configs/schema/yaml_tree.hpp"

namespace stoker::configs {

class MapReader;

// One value in force and where it came from: line 0 is a default.
struct EffectiveValue {
  std::vector<std::string> path;  // {"scheduler", "nodes"}; an item of a list is "[0]"
  std::string value;              // as YAML
  Position at;
};

class YamlReader {
 public:
  YamlReader(std::string_view text, std::string file, YamlLimits limits = {});
  YamlReader(const YamlReader&) = delete;
  YamlReader& operator=(const YamlReader&) = delete;

  // Reads the document, which must be a map. Call it once.
  void root(const std::function<void(MapReader&)>& schema);

  [[nodiscard]] bool ok() const { return errors_.empty(); }
  [[nodiscard]] Diagnostics errors() const;  // sorted by position
  [[nodiscard]] const std::vector<EffectiveValue>& effective() const { return effective_; }
  // The whole configuration as YAML, each line with its origin: "  nodes: 2   # run.yaml:4" or "#
  // default".
  [[nodiscard]] std::string render_effective() const;
  [[nodiscard]] const std::string& file() const { return file_; }

  void error(Position at, std::string message);
  // Where the value at `path` stands; line 0 when it is a default.
  [[nodiscard]] Position position_of(const std::vector<std::string>& path) const;

 private:
  friend class ValueReader;
  void remember(const std::vector<std::string>& path, std::string value, Position at);

  std::string file_;
  Diagnostics errors_;
  YamlNode root_;
  std::vector<EffectiveValue> effective_;                  // in the order of reading
  std::map<std::vector<std::string>, std::size_t> index_;  // path -> its place in effective_
};

// One place of the document: a value, or its absence. Lives only inside the callback that it was
// made in.
class ValueReader {
 public:
  ValueReader(YamlReader& reader, const YamlNode* node, Position at, std::vector<std::string> path)
      : reader_(reader), node_(node), at_(at), path_(std::move(path)) {}

  [[nodiscard]] Shape shape() const { return node_ == nullptr ? Shape::Absent : node_->shape; }
  [[nodiscard]] bool given() const { return node_ != nullptr; }
  [[nodiscard]] Position at() const { return at_; }  // of the value; when absent, of the map around
  [[nodiscard]] const std::vector<std::string>& path() const { return path_; }
  void error(std::string message) const { reader_.error(at_, std::move(message)); }

  // Each read keeps `out` as the default when the value is absent, and returns false after an
  // error.
  bool read(std::string& out) const;
  bool read(bool& out) const;
  bool read(double& out) const;
  bool read(Duration& out) const;
  template <std::integral T>
  requires(!std::same_as<T, bool>) bool read(T& out) const;
  template <NamedEnum E>
  bool read(E& out) const;
  template <class Tag>
  bool read(Name<Tag>& out) const {
    return read(out.text);
  }
  template <class Tag, class Rep>
  bool read(Number<Tag, Rep>& out) const {
    return read(out.value);
  }
  // null, and absent, are std::nullopt (an absent one keeps the default).
  template <class T>
  bool read(std::optional<T>& out) const;
  // A list of scalars.
  template <class T>
  bool read(std::vector<T>& out) const;
  // A map with free keys to scalars.
  template <class T>
  bool read(std::map<std::string, T>& out) const;
  bool read_size(std::uint64_t& bytes) const;
  bool read_share(double& share) const;

  // A nested map; absent, the callback sees an empty one, so that its defaults are remembered.
  void map(const std::function<void(MapReader&)>& schema) const;
  // A list; the callback sees each item. Absent: nothing. Returns the number of items.
  std::size_t list(const std::function<void(ValueReader&)>& item) const;
  // A map with free keys; the callback sees each key and value in the order of the file.
  void entries(const std::function<void(const YamlKey&, ValueReader&)>& entry) const;
  // The scalar's text when this is a scalar; records an error otherwise (nullptr), and none when
  // absent.
  const std::string* scalar(std::string_view expected) const;

 private:
  bool wrong_shape(std::string_view expected) const;
  void remember(std::string value) const {
    reader_.remember(path_, std::move(value), node_ == nullptr ? Position{} : at_);
  }
  template <class T, class Parse, class Show>
  bool read_with(T& out, std::string_view expected, Parse parse, Show show) const;
  bool read_whole(std::int64_t& out, std::int64_t low, std::int64_t high) const;
  bool read_count(std::uint64_t& out, std::uint64_t high) const;
  std::optional<std::size_t> read_choice(std::size_t current,
                                         const std::vector<std::string>&) const;

  YamlReader& reader_;
  const YamlNode* node_;
  Position at_;
  std::vector<std::string> path_;
};

class MapReader {
 public:
  // `node` is a map or nullptr (absent).
  MapReader(YamlReader& reader, const YamlNode* node, Position at, std::vector<std::string> path)
      : reader_(reader), node_(node), at_(at), path_(std::move(path)) {}

  ValueReader at(std::string_view key);        // may be absent
  ValueReader required(std::string_view key);  // its absence is an error
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] Position at() const { return at_; }
  [[nodiscard]] const std::vector<std::string>& path() const { return path_; }

  template <class T>
  bool read(std::string_view key, T& out) {
    return at(key).read(out);
  }
  template <class T>
  bool require(std::string_view key, T& out) {
    return required(key).read(out);
  }
  bool read_size(std::string_view key, std::uint64_t& bytes) { return at(key).read_size(bytes); }
  bool read_share(std::string_view key, double& share) { return at(key).read_share(share); }
  void map(std::string_view key, const std::function<void(MapReader&)>& schema) {
    at(key).map(schema);
  }
  std::size_t list(std::string_view key, const std::function<void(ValueReader&)>& item) {
    return at(key).list(item);
  }

  // Records "key: message" at the key's value (or at this map when it is a default) unless `good`.
  void check(std::string_view key, bool good, std::string_view message);
  // At most one of these keys may be given; with `needed`, exactly one.
  void one_of(const std::vector<std::string>& keys, bool needed);
  // Called by the reader after the schema: every key that was not asked for is an error.
  void finish();

 private:
  YamlReader& reader_;
  const YamlNode* node_;
  Position at_;
  std::vector<std::string> path_;
  std::set<std::string, std::less<>> asked_;
};

template <std::integral T>
requires(!std::same_as<T, bool>) bool ValueReader::read(T& out) const {
  if constexpr (std::is_signed_v<T>) {
    std::int64_t value = out;
    const bool good =
        read_whole(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
    out = static_cast<T>(value);
    return good;
  } else {
    std::uint64_t value = out;
    const bool good = read_count(value, std::numeric_limits<T>::max());
    out = static_cast<T>(value);
    return good;
  }
}

template <NamedEnum E>
bool ValueReader::read(E& out) const {
  const std::vector<std::string> names(EnumNames<E>::names.begin(), EnumNames<E>::names.end());
  const auto choice = read_choice(static_cast<std::size_t>(out), names);
  if (choice) out = static_cast<E>(*choice);
  return choice.has_value();
}

template <class T>
bool ValueReader::read(std::optional<T>& out) const {
  if (shape() == Shape::Absent && !out) return remember("null"), true;
  if (shape() == Shape::Null) {
    out.reset();
    remember("null");
    return true;
  }
  T value = out.value_or(T{});
  const bool good = read(value);
  if (good) out = std::move(value);
  return good;
}

template <class T>
bool ValueReader::read(std::vector<T>& out) const {
  if (shape() == Shape::Absent && out.empty()) return remember("[]"), true;
  if (shape() == Shape::Absent) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto path = path_;
      path.push_back("[" + std::to_string(i) + "]");
      ValueReader(reader_, nullptr, at_, std::move(path)).read(out[i]);
    }
    return true;
  }
  if (shape() != Shape::Sequence) return wrong_shape("a list");
  if (node_->items.empty()) remember("[]");
  out.clear();
  bool good = true;
  list([&](ValueReader& item) {
    T value{};
    good = item.read(value) && good;
    out.push_back(std::move(value));
  });
  return good;
}

template <class T>
bool ValueReader::read(std::map<std::string, T>& out) const {
  if (shape() == Shape::Absent) return remember("{}"), true;
  if (shape() != Shape::Map) return wrong_shape("a map");
  if (node_->items.empty()) remember("{}");
  out.clear();
  bool good = true;
  entries(
      [&](const YamlKey& key, ValueReader& value) { good = value.read(out[key.text]) && good; });
  return good;
}

}  // namespace stoker::configs
