// Spellings after kernels 3.10-6.12.
#include "diagnose/parse/kernel_begin.hpp"

#include <re2/re2.h>

namespace stoker::diagnose {

namespace {

constexpr std::size_t kLongestName = 15;   // of a process (TASK_COMM_LEN - 1)
constexpr std::size_t kLongestLead = 160;  // of a driver and its device

RE2::Options bytes() {
  RE2::Options o;
  o.set_encoding(RE2::Options::EncodingLatin1);
  o.set_dot_nl(true);
  return o;
}

std::size_t offset(std::string_view message, std::string_view words) {
  return static_cast<std::size_t>(words.data() - message.data());
}

bool is_driver(std::string_view lead) {
  static const RE2 kDriver(
      R"((?:NMI )?watchdog: |NMI |mce: |INFO: |rcu: |Internal error: |\{\d+\})"
      R"(|(?:mce: )?CPU ?\d+: (?:Package |Core )?)"
      R"(|(?:end_request|print_req_error|blk_update_request|blk_print_req_error): )"
      R"(|sd \d+:\d+:\d+:\d+: (?:\[\w+\] )?(?:tag#\d+ )?(?:Sense Key : )?)"
      R"(|(?:EXT\d-fs|XFS|BTRFS) \([\w.-]+\): )"
      // An interface: a digit sets it apart from words in front of a process's name ("mmap: ").
      R"(|[a-z][a-z_.-]*\d[\w.-]*: (?:\(slave [\w.-]+\): )?(?:NIC )?)"
      // Longer than a process's name from here on.
      R"(|[a-z][\w-]* [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]\b.*)",
      bytes());
  return RE2::FullMatch(re2::StringPiece(lead.data(), lead.size()), kDriver);
}

}  // namespace

bool led_by_process(std::string_view message) {
  static const RE2 kLed(
      R"(^(?:traps: |.{1,15}?(?:\[\d+\][: ]| \(\d+\)[: ]|/\d+: |: page allocation)"
      R"(|: \w+ (?:allocation failure|error)| invoked oom-killer| cpuset=| used greatest stack)))",
      bytes());
  static const RE2 kNameAndPid(R"(^.{1,15}?\(\d+\)[: ])", bytes());
  const re2::StringPiece text(message.data(), message.size());
  if (RE2::PartialMatch(text, kLed)) return true;
  return !message.starts_with("beegfs: ") && RE2::PartialMatch(text, kNameAndPid);
}

bool begins_message(std::string_view message, std::string_view words) {
  const std::size_t at = offset(message, words);
  const std::size_t end = at + words.size();
  if (at > kLongestLead || end > message.size() || led_by_process(message)) return false;
  // What fits in a name altogether may be one.
  if (end <= kLongestName && end < message.size()) return false;
  return at == 0 || is_driver(message.substr(0, at));
}

bool begins_behind_name(std::string_view message, std::string_view words) {
  const std::size_t at = offset(message, words);
  return at <= kLongestName || (at <= kLongestLead && is_driver(message.substr(0, at)));
}

}  // namespace stoker::diagnose
