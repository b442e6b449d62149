// LineTemplates: what the lines of a log look like once their numbers are taken out; the most
// frequent ones tell a person what to write a pattern for. Bounded: it looks at the first lines
// only and keeps a limited number of templates.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::diagnose {

class LineTemplates {
 public:
  void count(std::string_view line);
  // Up to `most`, the most frequent first, equal ones by their text: "step # loss=#".
  [[nodiscard]] std::vector<std::string> frequent(std::size_t most) const;

 private:
  std::map<std::string, std::uint64_t, std::less<>> seen_;
  std::uint64_t lines_ = 0;
};

// "Step 12 of 100: 3.5e-4" -> "Step # of #: #".
std::string line_template(std::string_view line);

}  // namespace stoker::diagnose
