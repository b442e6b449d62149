#include "cli/show/plain_words.hpp"

#include <doctest/doctest.h>
#include <string>
#include <utility>
#include <vector>

#include "core/action.hpp"
#include "core/event.hpp"

namespace stoker::cli {
namespace {

template <class Variant, std::size_t... I>
std::vector<std::string> kinds(std::index_sequence<I...>) {
  return {std::variant_alternative_t<I, Variant>::kKind...};
}
template <class Variant>
std::vector<std::string> kinds() {
  return kinds<Variant>(std::make_index_sequence<std::variant_size_v<Variant>>());
}

TEST_CASE("plain words: each kind of event and of action -> words, no internal name") {
  for (const std::string& kind : kinds<core::EventBody>()) CHECK(event_words(kind) != kind);
  for (const std::string& kind : kinds<core::Action>()) {
    const bool is_word = kind == "submit" || kind == "cancel";
    if (!is_word) CHECK(action_words(kind) != kind);
  }
}

TEST_CASE("plain words: an action's key and what is behind it -> no key, the kind of an alert") {
  CHECK(action_words("write_control demo/7/1") == "order to the agents");
  CHECK(action_words("send_alert demo/7/0 hang resolved") == "alert: hang resolved");
}

TEST_CASE("plain words: a name of a newer version -> as it is") {
  CHECK(event_words("moon_seen") == "moon_seen");
  CHECK(action_words("fly demo/7/0") == "fly");
  CHECK(action_words("fly") == "fly");
}

}  // namespace
}  // namespace stoker::cli
