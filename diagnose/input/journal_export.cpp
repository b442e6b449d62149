// Field by field; the message of an entry may come before or after its host.
#include "diagnose/input/journal_export.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <ctime>
#include <fmt/format.h>

#include "common/json.hpp"

namespace stoker::diagnose {

namespace {
constexpr std::size_t kLongestField = 64u << 10, kLongestWord = 255;

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

// One word, which no label of a log line is made of.
std::string as_name(std::string_view text, const char* otherwise) {
  std::string name(text.substr(0, kLongestWord));
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-' && c != '_'; },
      '_');
  return name.empty() ? otherwise : name;
}

std::string bytes_of(const Json& numbers) {
  std::string text;
  for (const Json& number : numbers)
    if (number.is_number_unsigned() && number.get<std::uint64_t>() < 256)
      text += static_cast<char>(number.get<std::uint64_t>());
  return text;
}
}  // namespace

JournalForm journal_form(std::string_view head) {
  if (head.starts_with("__CURSOR=") || head.starts_with("__REALTIME_TIMESTAMP="))
    return JournalForm::Export;
  const auto first = head.substr(0, head.find('\n'));
  const bool json = first.starts_with('{') && first.find("\"__CURSOR\"") != first.npos &&
                    first.find("\"MESSAGE\"") != first.npos;
  return json ? JournalForm::Json : JournalForm::None;
}

void JournalExport::field(std::string_view name, std::string_view value) {
  value = value.substr(0, kLongestField);
  if (name == "__REALTIME_TIMESTAMP") time_ = iso_time(value);
  if (name == "_HOSTNAME") host_ = value;
  if (name == "SYSLOG_IDENTIFIER") program_ = value;
  if (name == "MESSAGE") message_ = value;
  if (name == "_TRANSPORT") kernel_ = value == "kernel";
}

void JournalExport::end_of_entry(const std::function<void(std::string_view)>& take) {
  std::replace_if(
      message_.begin(), message_.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  host_ = as_name(host_, "localhost");
  program_ = kernel_ ? "kernel" : as_name(program_, "program");
  if (program_ == "kernel" && !kernel_) program_ = "program";  // `logger -t kernel`
  if (!message_.empty()) take(fmt::format("{}{} {}: {}", time_, host_, program_, message_));
  time_.clear();
  host_.clear();
  program_.clear();
  message_.clear();
  kernel_ = false;
}

void JournalExport::feed(std::string_view bytes,
                         const std::function<void(std::string_view)>& take) {
  held_ += bytes;
  if (form_ == JournalForm::Json)
    feed_objects(take);
  else
    feed_fields(take);
  if (held_.size() > kLongestField * 32) held_.clear();
}

void JournalExport::feed_objects(const std::function<void(std::string_view)>& take) {
  std::size_t begin = 0;
  for (auto newline = held_.find('\n'); newline != std::string::npos;
       newline = held_.find('\n', begin)) {
    const auto entry = std::string_view(held_).substr(begin, newline - begin);
    begin = newline + 1;
    const auto object = parse_json(entry, "journal");
    if (!object || !object->is_object()) continue;
    for (const auto& [name, value] : object->items())
      if (value.is_string())
        field(name, value.get_ref<const std::string&>());
      else if (value.is_array())  // with bytes that are no text, as colours are
        field(name, bytes_of(value));
    end_of_entry(take);
  }
  held_.erase(0, begin);
}

void JournalExport::feed_fields(const std::function<void(std::string_view)>& take) {
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
      field(line, std::string_view(held_).substr(newline + 9, length));
      begin = newline + 9 + length + 1;
      continue;
    } else {
      const auto equals = line.find('=');
      field(line.substr(0, equals), line.substr(equals + 1));
    }
    begin = newline + 1;
  }
  held_.erase(0, begin);
}

}  // namespace stoker::diagnose
