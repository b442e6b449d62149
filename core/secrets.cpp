#include "core/secrets.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace stoker::core {
namespace {

bool is_secret_option(std::string_view name) {
  // A body (template) may need a token in it: some receivers take it from nowhere else.
  constexpr std::array<std::string_view, 9> kWords{"url",           "token",   "password",
                                                   "secret",        "header",  "key",
                                                   "authorization", "command", "template"};
  if (name.ends_with("_file")) return false;
  return std::any_of(kWords.begin(), kWords.end(), [name](std::string_view word) {
    return name.find(word) != std::string_view::npos;
  });
}

}  // namespace

bool names_secret(std::string_view name) {
  if (name.ends_with("_KEY")) return true;  // a variable; "partition_key" is a harmless field
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (lower.ends_with("_file")) return false;
  constexpr std::array<std::string_view, 9> kWords{"password",    "passwd",        "secret",
                                                   "token",       "api_key",       "apikey",
                                                   "routing_key", "authorization", "credential"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

Json without_secrets(Json document) {
  if (document.is_array()) {
    for (Json& entry : document) entry = without_secrets(std::move(entry));
    return document;
  }
  if (!document.is_object()) return document;
  for (auto& [name, value] : document.items()) {
    const bool environment = name == "environment" && value.is_object();
    const bool options = name == "options" && value.is_object();
    if (!environment && !options) {
      value = without_secrets(std::move(value));
      continue;
    }
    for (auto& [key, secret] : value.items())
      if (environment || is_secret_option(key)) secret = kHidden;
  }
  return document;
}

}  // namespace stoker::core
