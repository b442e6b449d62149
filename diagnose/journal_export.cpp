// Field by field; the message of an entry may come before or after its host.
#include "diagnose/journal_export.hpp"

#include <charconv>
#include <ctime>
#include <fmt/format.h>

namespace stoker::diagnose {

namespace {
constexpr std::size_t kLongestField = 64u << 10;

// "1679012345678901" (microseconds) -> "2023-03-17T00:19:05.678".
std::string iso_time(std::string_view microseconds) {
  std::int64_t us = 0;
  const auto end = microseconds.data() + microseconds.size();
  if (std::from_chars(microseconds.data(), end, us).ec != std::errc{}) return {};
  const std::time_t seconds = us / 1'000'000;
  std::tm t{};
  if (gmtime_r(&seconds, &t) == nullptr) return {};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z ", t.tm_year + 1900, t.tm_mon + 1,
                     t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec, us / 1000 % 1000);
}
}  // namespace

bool is_journal_export(std::string_view head) {
  return head.starts_with("__CURSOR=") || head.starts_with("__REALTIME_TIMESTAMP=");
}

void JournalExport::field(std::string_view line) {
  const auto equals = line.find('=');
  if (equals == std::string_view::npos) return;
  const std::string_view name = line.substr(0, equals);
  const std::string_view value = line.substr(equals + 1, kLongestField);
  if (name == "__REALTIME_TIMESTAMP") time_ = iso_time(value);
  if (name == "_HOSTNAME") host_ = value;
  if (name == "SYSLOG_IDENTIFIER") program_ = value;
  if (name == "MESSAGE") message_ = value;
  if (name == "_TRANSPORT") kernel_ = value == "kernel";
}

void JournalExport::end_of_entry(const std::function<void(std::string_view)>& take) {
  if (!message_.empty())
    take(fmt::format("{}{} {}: {}", time_, host_.empty() ? "localhost" : host_,
                     kernel_ ? "kernel" : (program_.empty() ? "program" : program_), message_));
  time_.clear();
  host_.clear();
  program_.clear();
  message_.clear();
  kernel_ = false;
}

void JournalExport::feed(std::string_view bytes,
                         const std::function<void(std::string_view)>& take) {
  held_ += bytes;
  std::size_t begin = 0;
  while (true) {
    const auto newline = held_.find('\n', begin);
    if (newline == std::string::npos) break;
    const std::string_view line = std::string_view(held_).substr(begin, newline - begin);
    if (line.empty()) {
      end_of_entry(take);
    } else if (line.find('=') == std::string_view::npos) {
      // A binary field: its name, then its length as 8 bytes, then that much and a newline.
      if (held_.size() < newline + 9) break;
      std::uint64_t length = 0;
      for (int i = 7; i >= 0; --i)
        length = length << 8 |
                 static_cast<unsigned char>(held_[newline + 1 + static_cast<std::size_t>(i)]);
      if (length > kLongestField * 16) {  // nonsense: go on with the next line
        begin = newline + 1;
        continue;
      }
      if (held_.size() < newline + 9 + length + 1) break;
      field(std::string(line) + "=" + held_.substr(newline + 9, length));
      begin = newline + 9 + length + 1;
      continue;
    } else {
      field(line);
    }
    begin = newline + 1;
  }
  held_.erase(0, begin);
  if (held_.size() > kLongestField * 32) held_.clear();
}

}  // namespace stoker::diagnose
