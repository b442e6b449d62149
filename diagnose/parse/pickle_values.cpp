// Every piece is paid for before it is made.
#include "diagnose/parse/pickle_values.hpp"

#include <cmath>
#include <fmt/format.h>

namespace stoker::diagnose {

bool PickleBudget::take(std::size_t bytes) {
  if (!refused_.empty()) return false;
  if (bytes > limits_.memory - used_) {
    refused_ = fmt::format("reading it needs more than {} MiB of memory", limits_.memory >> 20);
    return false;
  }
  used_ += bytes;
  return true;
}

bool PickleBudget::has_room(std::size_t values) {
  if (values >= limits_.values && refused_.empty())
    refused_ = fmt::format("it holds more than {} values", limits_.values);
  return refused_.empty();
}

namespace {

class Unfolding {
 public:
  Unfolding(const PickleValues& values, const PickleLimits& limits, PickleBudget& budget)
      : values_(values), limits_(limits), budget_(budget) {}

  Json any(PickleValue::Place place, std::size_t depth) {
    using Is = PickleValue::Kind;
    if (depth > limits_.depth || !budget_.has_room(written_)) return nullptr;
    ++written_;
    const PickleValue& value = values_[place];
    switch (value.kind) {
      case Is::None:
      case Is::Opaque:
      case Is::Mark: return nullptr;
      case Is::False: return false;
      case Is::True: return true;
      case Is::Int: return value.integer;
      case Is::Float: return std::isfinite(value.real) ? Json(value.real) : Json(nullptr);
      case Is::Text: return text(value);
      case Is::List: return list(value, depth);
      case Is::Map: return map(value, depth);
    }
    return nullptr;
  }

 private:
  Json text(const PickleValue& value) {
    const std::string_view text = value.text.substr(0, limits_.longest_text);
    if (!budget_.take(kBlock + text.size())) return nullptr;
    return std::string(text);
  }
  Json list(const PickleValue& value, std::size_t depth) {
    Json list = Json::array();
    if (!budget_.take(kBlock + value.items.size() * sizeof(Json))) return list;
    list.get_ref<Json::array_t&>().reserve(value.items.size());
    for (const auto item : value.items) {
      if (!budget_.refused().empty()) break;
      list.push_back(any(item, depth + 1));
    }
    return list;
  }
  Json map(const PickleValue& value, std::size_t depth) {
    Json map = Json::object();
    if (!budget_.take(kBlock)) return map;
    for (std::size_t i = 0; i + 1 < value.items.size(); i += 2) {
      std::string key = key_text(values_[value.items[i]]);
      if (!limits_.left_out.empty() && key == limits_.left_out) {
        if (!budget_.has_room(written_++)) break;
        continue;
      }
      if (!budget_.take(kMapEntry + key.size())) break;
      map[std::move(key)] = any(value.items[i + 1], depth + 1);
    }
    return map;
  }
  [[nodiscard]] std::string key_text(const PickleValue& key) const {
    if (key.kind == PickleValue::Kind::Text)
      return std::string(key.text.substr(0, limits_.longest_text));
    return key.kind == PickleValue::Kind::Int ? std::to_string(key.integer) : "";
  }

  const PickleValues& values_;
  const PickleLimits& limits_;
  PickleBudget& budget_;
  std::size_t written_ = 0;
};

}  // namespace

Json unfold_pickle(const PickleValues& values, PickleValue::Place root, const PickleLimits& limits,
                   PickleBudget& budget) {
  return Unfolding(values, limits, budget).any(root, 0);
}

}  // namespace stoker::diagnose
