// SharedMap: copies share until one is changed.
#include "common/shared_map.hpp"

#include <doctest/doctest.h>

using namespace stoker;

TEST_CASE("shared map: a copy is changed -> the other one keeps what it had") {
  SharedMap<int, std::string> one;
  one[1] = "a";
  SharedMap<int, std::string> other = one;
  CHECK(other.shares(one));
  other[2] = "b";
  CHECK_FALSE(other.shares(one));
  CHECK(one.size() == 1);
  CHECK(other.size() == 2);
  CHECK(one.find(2) == one.end());
  one[1] = "c";
  CHECK(other.at(1) == "a");
  one = other;
  CHECK(one.shares(other));
}

TEST_CASE("shared map: reading -> no sharer is separated") {
  SharedMap<int, int> one;
  one[1] = 7;
  const SharedMap<int, int> other = one;
  int sum = 0;
  for (const auto& [key, value] : one) sum += value;
  CHECK(sum == 7);
  CHECK(one.contains(1));
  CHECK(one.shares(other));
}

TEST_CASE("shared map: written and read -> as a map") {
  SharedMap<NodeName, int> map;
  CHECK(to_json_text(map) == to_json_text(std::map<NodeName, int>{}));
  map[NodeName("n2")] = 2;
  map[NodeName("n1")] = 1;
  const std::string text = to_json_text(map);
  CHECK(text == to_json_text(std::map<NodeName, int>{{NodeName("n1"), 1}, {NodeName("n2"), 2}}));
  const auto again = from_json_text<SharedMap<NodeName, int>>(text, "map");
  REQUIRE(again);
  CHECK(again->read() == map.read());
}
