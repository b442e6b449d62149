#include "slurm/token_search.hpp"

#include <algorithm>
#include <charconv>

namespace stoker::slurm {
namespace {

constexpr std::size_t kHead = 64;          // two ids with their names fit
constexpr std::size_t kMostJobs = 10'000;  // of other users' making: a token has one job

std::uint64_t number_after(std::string_view key, std::string_view& text) {
  std::uint64_t number = 0;
  if (!text.starts_with(key)) return 0;
  text.remove_prefix(key.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

void TokenSearch::feed(std::string_view piece) {
  while (!piece.empty()) {
    const auto end = piece.find('\n');
    add(piece.substr(0, end));
    if (end == std::string_view::npos) return;
    end_line();
    piece.remove_prefix(end + 1);
  }
}

void TokenSearch::add(std::string_view part) {
  head_ += part.substr(0, kHead - std::min(head_.size(), kHead));
  if (in_line_ || token_.empty()) return;
  const std::size_t before = token_.text.size() - 1;
  tail_ += part.substr(0, before);  // across two pieces
  in_line_ = tail_.find(token_.text) != std::string::npos ||
             part.find(token_.text) != std::string_view::npos;
  if (part.size() > before)
    tail_ = part.substr(part.size() - before);
  else if (tail_.size() > before)
    tail_.erase(0, tail_.size() - before);
}

void TokenSearch::end_line() {
  std::string_view head = head_;
  std::uint64_t id = number_after("JobId=", head);
  if (const auto array = number_after(" ArrayJobId=", head)) id = array;
  any_job_ = any_job_ || id != 0;
  found_ = found_ || in_line_;
  if (in_line_ && id != 0 && jobs_.size() < kMostJobs) jobs_.insert(id);
  head_.clear();
  tail_.clear();
  in_line_ = false;
}

}  // namespace stoker::slurm
