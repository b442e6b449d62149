// What is published has no secrets in it.
#include "core/secrets.hpp"

#include <doctest/doctest.h>

#include "core/publish/status.hpp"

using namespace stoker;
using namespace stoker::core;

TEST_CASE("published event: of a policy with secrets -> its keys, not their values") {
  JournalRow row;
  RunAdded added;
  added.policy.run = RunName("demo");
  added.policy.train.environment = {{"HF_TOKEN", "hf_secret"}};
  SinkPolicy sink;
  sink.name = "chat";
  sink.kind = "webhook";
  sink.options = {{"url", "https://hooks.example/T0/secret"},
                  {"template", R"({"token": "template-secret", "text": "{title}"})"},
                  {"authorization_file", "/home/alice/auth"},
                  {"timeout", "5s"}};
  added.policy.alerts.sinks = {sink};
  row.event.body = added;
  const std::string text = to_json_text(published_event(row));
  CHECK(text.find("secret") == std::string::npos);
  CHECK(text.find("HF_TOKEN") != std::string::npos);
  CHECK(text.find("/home/alice/auth") != std::string::npos);
  CHECK(text.find("5s") != std::string::npos);
}

TEST_CASE("without_secrets: deep inside actions, and beside values of other kinds -> hidden") {
  const Json orders{{"number", 3}, {"environment", {{"A", "secret"}, {"B", 7}}}};
  const Json hidden = without_secrets(Json::array({Json{{"orders", orders}}, "environment", 5}));
  CHECK(hidden.dump().find("secret") == std::string::npos);
  CHECK(hidden[0]["orders"]["number"] == 3);
  CHECK(hidden[0]["orders"]["environment"]["A"] == kHidden);
  CHECK(hidden[0]["orders"]["environment"]["B"] == kHidden);
  CHECK(hidden[2] == 5);
}
