// Words: a line of a transcript, taken apart: words, "quoted texts", and typed access by keyword.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::sim {

class Words {
 public:
  explicit Words(std::string_view line);

  [[nodiscard]] bool empty() const { return at_ >= words_.size(); }
  [[nodiscard]] const std::string& peek(std::size_t further = 0) const;  // "" behind the end
  std::string next();                                                    // "" at the end
  bool take(std::string_view word);  // consumes it when it is next

  // The word after `key` anywhere in the rest, taken out; empty when the key is not there.
  std::optional<std::string> value(std::string_view key);
  bool flag(std::string_view key);
  std::uint64_t number(std::string_view key, std::uint64_t otherwise = 0);
  double real(std::string_view key, double otherwise = 0);
  Duration duration(std::string_view key, Duration otherwise = {});
  std::vector<NodeName> nodes(std::string_view key);
  std::string quoted();  // the first "quoted text" of the rest, taken out
  // Unexpected words.
  [[nodiscard]] std::string rest() const;

 private:
  std::vector<std::string> words_;
  std::size_t at_ = 0;
};

// "1_2" -> job 1, task 2.
JobId parse_job(std::string_view text);

}  // namespace stoker::sim
