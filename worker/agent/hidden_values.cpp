#include "worker/agent/hidden_values.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace stoker::agent {
namespace {
constexpr std::string_view kHidden = "(hidden)";
}  // namespace

std::string without_values(std::string text,
                           const std::map<std::string, std::string>& environment) {
  constexpr std::size_t kShortest = 6;
  std::vector<std::string_view> values;
  for (const auto& [name, value] : environment)
    if (value.size() >= kShortest) values.push_back(value);
  // One that contains another goes first: nothing of it is left.
  std::sort(values.begin(), values.end(),
            [](std::string_view a, std::string_view b) { return a.size() > b.size(); });
  for (const std::string_view value : values)
    for (auto at = text.find(value); at != std::string::npos;
         at = text.find(value, at + kHidden.size()))
      text.replace(at, value.size(), kHidden);
  return text;
}

void HiddenWord::feed(std::string_view bytes, const Sink& sink) {
  if (!pending_.empty()) {
    pending_.append(bytes);
    bytes = pending_;
  }
  for (auto at = bytes.find(word_); at != std::string_view::npos; at = bytes.find(word_)) {
    if (at > 0) sink(bytes.substr(0, at));
    sink(kHidden);
    bytes.remove_prefix(at + word_.size());
  }
  std::size_t begun = std::min(bytes.size(), word_.size() - 1);
  while (begun > 0 && !bytes.ends_with(std::string_view(word_).substr(0, begun))) --begun;
  if (begun < bytes.size()) sink(bytes.substr(0, bytes.size() - begun));
  pending_ = std::string(bytes.substr(bytes.size() - begun));
}

void HiddenWord::finish(const Sink& sink) {
  if (!pending_.empty()) sink(pending_);
  pending_.clear();
}

}  // namespace stoker::agent
