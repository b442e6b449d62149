// Lines with a number in them only: a training's progress has one.
#include "diagnose/match/line_templates.hpp"

#include <algorithm>

#include "diagnose/input/line_scan.hpp"

namespace stoker::diagnose {

namespace {
constexpr std::uint64_t kMostLines = 20'000;
constexpr std::size_t kMostTemplates = 2048;
constexpr std::size_t kLongest = 160;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool continues_number(char c) {
  return is_digit(c) || c == '.' || c == ',' || c == 'e' || c == 'E' || c == '+' || c == '-';
}
}  // namespace

std::string line_template(std::string_view line) {
  std::string storage, text;
  line = without_rank_prefix(without_colours(line.substr(0, kLongestLine), storage));
  for (std::size_t i = 0; i < line.size() && text.size() < kLongest;) {
    if (is_digit(line[i])) {
      while (i < line.size() && continues_number(line[i])) ++i;
      text += '#';
    } else if (line[i] == ' ' || line[i] == '\t') {
      while (i < line.size() && (line[i] == ' ' || line[i] == '\t')) ++i;
      text += ' ';
    } else {
      text += line[i++];
    }
  }
  return text;
}

void LineTemplates::count(std::string_view line) {
  if (++lines_ > kMostLines) return;
  std::string text = line_template(line);
  if (text.find('#') == std::string::npos) return;
  const auto known = seen_.find(text);
  if (known != seen_.end())
    ++known->second;
  else if (seen_.size() < kMostTemplates)
    seen_.emplace(std::move(text), 1);
}

std::vector<std::string> LineTemplates::frequent(std::size_t most) const {
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [text, times] : seen_) order.emplace_back(times, text);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(most, order.size()); ++i) texts.push_back(order[i].second);
  return texts;
}

}  // namespace stoker::diagnose
