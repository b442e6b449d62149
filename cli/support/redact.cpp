// First what is known, then what is named, then what has the form of a secret.
#include "cli/support/redact.hpp"

#include <algorithm>
#include <array>
#include <re2/re2.h>

#include "common/check.hpp"
#include "common/os/files.hpp"
#include "core/secrets.hpp"

namespace stoker::cli::support {
namespace {

constexpr std::size_t kShortest = 6;  // of a known secret: shorter ones are words
constexpr std::size_t kLargestSecretFile = 16u << 10;

Json hide_named(Json document, std::size_t& hidden) {
  if (document.is_array()) {
    for (Json& entry : document) entry = hide_named(std::move(entry), hidden);
  } else if (document.is_object()) {
    for (auto& [key, value] : document.items()) {
      if (value.is_string() && core::names_secret(key)) {
        value = core::kHidden;
        ++hidden;
      } else {
        value = hide_named(std::move(value), hidden);
      }
    }
  }
  return document;
}

// A document, or a line that is one; else the text itself.
std::string clean_json(std::string_view text, std::size_t& hidden) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || (text[first] != '{' && text[first] != '['))
    return std::string(text);
  auto document = parse_json(text, "support", {.bytes = 64u << 20, .depth = 64});
  if (!document) return std::string(text);
  return dump_json(hide_named(core::without_secrets(*std::move(document)), hidden));
}

void add_strings(const Json& value, std::vector<std::string>& out) {
  if (value.is_string()) out.push_back(value.get<std::string>());
  if (value.is_structured())
    for (const Json& entry : value) add_strings(entry, out);
}

void add_file(const std::string& path, std::vector<std::string>& out) {
  const auto text = os::read_file(path, kLargestSecretFile);
  if (!text) return;
  std::string word = text->substr(0, text->find_last_not_of(" \t\r\n") + 1);
  out.push_back(word);
  for (std::size_t at = 0; at < word.size();) {  // and each of its lines
    const std::size_t end = std::min(word.find('\n', at), word.size());
    out.push_back(word.substr(at, end - at));
    at = end + 1;
  }
}

}  // namespace

struct Redactor::Patterns {
  std::size_t hidden = 0;
  std::array<std::pair<std::unique_ptr<RE2>, std::string>, 7> all;
};

Redactor::Redactor(std::vector<std::string> known)
    : known_(std::move(known)), patterns_(std::make_unique<Patterns>()) {
  std::erase_if(known_, [](const std::string& word) { return word.size() < kShortest; });
  std::sort(known_.begin(), known_.end(), [](const auto& a, const auto& b) {
    return std::tuple(b.size(), a) < std::tuple(a.size(), b);
  });
  known_.erase(std::unique(known_.begin(), known_.end()), known_.end());
  const std::string hidden(core::kHidden);
  const std::pair<const char*, std::string> forms[] = {
      {R"((?is)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\z))",
       hidden},
      {R"((?i)((?:proxy-)?authorization\\*["']?\s*[:=]\s*\\*["']?(?:[a-z]+\s+)?)[^\s"',;]+)",
       "\\1" + hidden},
      {R"((?i)([\w.-]*(?:password|passwd|secret)[\w.-]*\\*["']?\s*[:=]\s*\\*["']?)[^\s"',;&]{4,})",
       "\\1" + hidden},
      {R"re((?i)([\w.-]*(?:token|api_?key|access_?key|credential)[\w.-]*\\*["']?\s*[:=]\s*\\*["']?))re"
       R"re([^\s"',;&]*[A-Za-z][^\s"',;&]*)re",
       "\\1" + hidden},
      {R"((?i)\b([a-z][a-z0-9+.-]*://)[^\s/@:]+:[^\s/@]+@)", "\\1" + hidden + "@"},
      {R"((?i)([?&](?:sig|signature|token|key|auth|access_token)=)[^\s&"']+)", "\\1" + hidden},
      {R"(\b(?:hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{16,}|)"
       R"(xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|tk_[A-Za-z0-9]{16,}|)"
       R"(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}))",
       hidden},
  };
  for (std::size_t i = 0; i < patterns_->all.size(); ++i)
    patterns_->all[i] = {std::make_unique<RE2>(forms[i].first, RE2::Quiet), forms[i].second};
  for (const auto& [pattern, instead] : patterns_->all)
    STOKER_CHECK(pattern->ok(), "a pattern of secrets: " + pattern->error());
}

Redactor::~Redactor() = default;
Redactor::Redactor(Redactor&&) noexcept = default;
Redactor& Redactor::operator=(Redactor&&) noexcept = default;

std::size_t Redactor::hidden() const {
  return patterns_->hidden;
}

std::string Redactor::clean(std::string_view text) {
  std::string out = clean_json(text, patterns_->hidden);
  if (out == text) {  // lines, each perhaps a document, perhaps with its checksum behind it
    out.clear();
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = text.substr(0, end);
      const std::size_t body = line.starts_with('{') ? std::min(line.rfind('\t'), end) : end;
      out += clean_json(line.substr(0, body), patterns_->hidden);
      out += line.substr(body);
      if (end < text.size()) out += '\n';
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  for (const std::string& word : known_)
    for (auto at = out.find(word); at != std::string::npos; at = out.find(word, at)) {
      out.replace(at, word.size(), core::kHidden);
      at += core::kHidden.size();
      ++patterns_->hidden;
    }
  for (const auto& [pattern, instead] : patterns_->all)
    patterns_->hidden += static_cast<std::size_t>(RE2::GlobalReplace(&out, *pattern, instead));
  return out;
}

std::vector<std::string> secrets_of(const Json& policy) {
  std::vector<std::string> out;
  if (!policy.is_object()) return out;
  const Json flat = policy.flatten(), kept = core::without_secrets(policy).flatten();
  for (const auto& [path, value] : flat.items()) {
    if (!value.is_string()) continue;
    const auto text = value.get<std::string>();
    if (path.starts_with("/alerts/") && path.ends_with("_file")) add_file(text, out);
    if (!kept.contains(path) || kept[path] != value) out.push_back(text);
  }
  return out;
}

std::vector<std::string> secrets_of_orders(const std::string& run_directory) {
  constexpr std::size_t kMost = 64;
  std::vector<std::string> out;
  const auto names = os::list_directory(run_directory + "/orders");
  if (!names) return out;
  std::size_t read = 0;
  for (auto name = names->rbegin(); name != names->rend() && read < kMost; ++name, ++read) {
    const auto text = os::read_file(run_directory + "/orders/" + *name, 1u << 20, true);
    const auto order = text ? parse_json(*text, *name) : Result<Json>(fail(""));
    if (order && order->is_object())
      if (const auto variables = order->find("environment"); variables != order->end())
        add_strings(*variables, out);
  }
  return out;
}

}  // namespace stoker::cli::support
