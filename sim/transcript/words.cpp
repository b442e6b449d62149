// Words of a transcript line.
#include "sim/transcript/words.hpp"

#include <algorithm>
#include <cstdlib>

#include "common/hostlist.hpp"

namespace stoker::sim {

Words::Words(std::string_view line) {
  std::string word;
  bool quoted = false;
  const auto end_word = [&] {
    if (!word.empty()) words_.push_back(word);
    word.clear();
  };
  for (const char c : line) {
    if (c == '"') {
      if (quoted) words_.push_back("\"" + word);
      word.clear();
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      end_word();
    } else {
      word += c;
    }
  }
  end_word();
}

const std::string& Words::peek(std::size_t further) const {
  static const std::string kNone;
  return at_ + further < words_.size() ? words_[at_ + further] : kNone;
}

std::string Words::next() {
  return empty() ? std::string() : words_[at_++];
}

bool Words::take(std::string_view word) {
  if (empty() || words_[at_] != word) return false;
  ++at_;
  return true;
}

std::optional<std::string> Words::value(std::string_view key) {
  for (std::size_t i = at_; i + 1 < words_.size(); ++i)
    if (words_[i] == key) {
      std::string found = words_[i + 1];
      words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i),
                   words_.begin() + static_cast<std::ptrdiff_t>(i) + 2);
      if (found.starts_with('"')) found.erase(0, 1);
      return found;
    }
  return std::nullopt;
}

bool Words::flag(std::string_view key) {
  const auto found =
      std::find(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end(), key);
  if (found == words_.end()) return false;
  words_.erase(found);
  return true;
}

std::uint64_t Words::number(std::string_view key, std::uint64_t otherwise) {
  const auto text = value(key);
  return text ? std::strtoull(text->c_str(), nullptr, 10) : otherwise;
}

double Words::real(std::string_view key, double otherwise) {
  const auto text = value(key);
  return text ? std::strtod(text->c_str(), nullptr) : otherwise;
}

Duration Words::duration(std::string_view key, Duration otherwise) {
  const auto text = value(key);
  return text ? parse_duration(*text).value_or(otherwise) : otherwise;
}

std::vector<NodeName> Words::nodes(std::string_view key) {
  const auto text = value(key);
  return text ? expand_hostlist(*text).value_or(std::vector<NodeName>{}) : std::vector<NodeName>{};
}

std::string Words::quoted() {
  for (std::size_t i = at_; i < words_.size(); ++i)
    if (words_[i].starts_with('"')) {
      std::string text = words_[i].substr(1);
      words_.erase(words_.begin() + static_cast<std::ptrdiff_t>(i));
      return text;
    }
  return {};
}

std::string Words::rest() const {
  std::string text;
  for (std::size_t i = at_; i < words_.size(); ++i) text += (text.empty() ? "" : " ") + words_[i];
  return text;
}

JobId parse_job(std::string_view text) {
  JobId id;
  const std::string copy(text);
  char* end = nullptr;
  id.job = std::strtoull(copy.c_str(), &end, 10);
  if (*end == '_') id.task = static_cast<std::uint32_t>(std::strtoul(end + 1, nullptr, 10));
  return id;
}

}  // namespace stoker::sim
