// SharedMap: an ordered map as a value that costs nothing to copy. Copies share their content until
// one of them is changed: that one gets its own. For parts of the decider's state that are large
// and seldom change; the state is copied with every turn. Copies belong to one thread.
#pragma once

#include <map>
#include <memory>

#include "common/json.hpp"

namespace stoker {

template <class Key, class Value>
class SharedMap {
 public:
  using Map = std::map<Key, Value>;

  [[nodiscard]] const Map& read() const {
    static const Map none;
    return map_ ? *map_ : none;
  }
  // For changes: earlier sharers of the content do not see them.
  Map& edit() {
    if (!map_)
      map_ = std::make_shared<Map>();
    else if (map_.use_count() > 1)
      map_ = std::make_shared<Map>(*map_);
    return *map_;
  }
  Value& operator[](const Key& key) { return edit()[key]; }

  [[nodiscard]] bool empty() const { return read().empty(); }
  [[nodiscard]] std::size_t size() const { return read().size(); }
  [[nodiscard]] bool contains(const Key& key) const { return read().contains(key); }
  [[nodiscard]] const Value& at(const Key& key) const { return read().at(key); }
  [[nodiscard]] typename Map::const_iterator find(const Key& key) const { return read().find(key); }
  [[nodiscard]] typename Map::const_iterator begin() const { return read().begin(); }
  [[nodiscard]] typename Map::const_iterator end() const { return read().end(); }
  // Nothing was changed since one was copied from the other. Different content may still be equal.
  [[nodiscard]] bool shares(const SharedMap& other) const { return map_ == other.map_; }

 private:
  std::shared_ptr<Map> map_;
};

template <class Key, class Value>
void to_json(Json& j, const SharedMap<Key, Value>& map) {
  j = map.read();
}
template <class Key, class Value>
void from_json(const Json& j, SharedMap<Key, Value>& map) {
  map.edit() = j.get<std::map<Key, Value>>();
}

}  // namespace stoker
