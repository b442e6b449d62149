#include "worker/agent/hidden_values.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace stoker::agent {

std::string without_values(std::string text,
                           const std::map<std::string, std::string>& environment) {
  constexpr std::size_t kShortest = 6;
  constexpr std::string_view kHidden = "(hidden)";
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

}  // namespace stoker::agent
