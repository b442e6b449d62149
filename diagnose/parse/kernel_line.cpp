// One function a class; spellings after drivers 390-595 and kernels 3.10-6.12.
#include "diagnose/parse/kernel_line.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>

#include "diagnose/input/line_origin.hpp"
#include "diagnose/input/line_scan.hpp"
#include "diagnose/parse/kernel_begin.hpp"

namespace stoker::diagnose {

namespace {

constexpr auto npos = std::string_view::npos;
constexpr std::size_t kLongestText = 512;

std::optional<std::int64_t> number_after(std::string_view text, std::string_view key) {
  const auto at = text.find(key);
  if (at == npos) return std::nullopt;
  std::size_t length = 0;
  const auto value = scan_count(text.substr(at + key.size()), length);
  if (!value || *value > 0x7fffffff) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

// The text between `open` and the next `close` after it.
std::string_view between(std::string_view text, std::string_view open, char close) {
  const auto at = text.find(open);
  if (at == npos) return {};
  const auto begin = at + open.size();
  const auto end = text.find(close, begin);
  return end == npos ? std::string_view{} : text.substr(begin, end - begin);
}

KernelEvent make(KernelClass event_class, std::string_view text) {
  KernelEvent event;
  event.event_class = event_class;
  event.text = std::string(trim(text).substr(0, kLongestText));
  return event;
}

std::string real_name(std::string_view name) {
  return name.find("<unknown>") == npos ? std::string(name.substr(0, 64)) : std::string{};
}

// "NVRM: Xid (PCI:0000:cb:00): 13, pid=…, name=…, text"; old ones without "PCI:" or with an empty
// rest; "Xid 79" of nvidia-smi's own log is not a kernel line. Without the comma all of it would
// fit in the name of a process.
std::optional<KernelEvent> parse_xid(std::string_view text) {
  if (!text.starts_with("NVRM: Xid (")) return std::nullopt;
  const auto close = text.find("):");
  if (close == npos) return std::nullopt;
  std::size_t length = 0;
  const std::string_view rest = trim_left(text.substr(close + 2));
  const auto code = scan_count(rest, length);
  if (!code || *code > 100'000 || !rest.substr(length).starts_with(",")) return std::nullopt;
  KernelEvent event = make(KernelClass::Xid, text);
  event.xid = static_cast<int>(*code);
  event.gpu_pci = normal_pci(between(text, "Xid (", ')')).value_or("");
  event.pid = number_after(text, "pid=");
  event.process = real_name(between(text, "name=", ','));
  return event;
}

std::optional<KernelEvent> parse_sxid(std::string_view text) {
  const auto mark = text.find(": SXid (");
  if (!text.starts_with("nvidia-nvswitch") || mark == npos || mark > 20) return std::nullopt;
  const auto close = text.find("):");
  if (close == npos) return std::nullopt;
  std::size_t length = 0;
  const std::string_view rest = trim_left(text.substr(close + 2));
  const auto code = scan_count(rest, length);
  if (!code || *code > 1'000'000) return std::nullopt;
  std::string_view behind = rest.substr(length);
  if (behind.starts_with(",")) behind = trim_left(behind.substr(1));
  if (behind.starts_with("Data {") || behind.starts_with("Severity ")) return std::nullopt;
  KernelEvent event = make(KernelClass::Sxid, text);
  event.xid = static_cast<int>(*code);
  event.gpu_pci = normal_pci(between(text, "SXid (", ')')).value_or("");
  if (behind.starts_with("Fatal")) event.severity = "Fatal";
  if (behind.starts_with("Non-fatal")) event.severity = "Non-fatal";
  return event;
}

std::optional<KernelEvent> parse_gpu_lost(std::string_view text) {
  if (!text.starts_with("NVRM: ") || text.find("fallen off the bus") == npos) return std::nullopt;
  KernelEvent event = make(KernelClass::GpuLost, text);
  event.gpu_pci = normal_pci(between(text, "GPU ", ' ')).value_or("");
  return event;
}

std::optional<std::uint32_t> uid_at(std::string_view digits, std::string_view behind) {
  std::size_t length = 0;
  const auto uid = scan_count(digits, length);
  if (!uid || *uid > 0xffffffff || !digits.substr(length).starts_with(behind)) return std::nullopt;
  return static_cast<std::uint32_t>(*uid);
}

// Names of processes and cgroups in front may hold "uid=0" as well: the kernel's own is the last
// one, and only where the whole line is there.
std::optional<std::uint32_t> uid_of_choice(std::string_view text) {
  constexpr std::size_t kWhole = 900;  // the kernel's records end near 1000 bytes
  const auto at = text.rfind(",uid=");
  if (at == npos || text.size() > kWhole) return std::nullopt;
  const std::string_view digits = text.substr(at + 5);
  if (digits.find_first_not_of("0123456789") != npos) return std::nullopt;
  return uid_at(digits, "");
}

// "Killed process 7 (x) total-vm:…, UID:1000 pgtables:…"; of 3.10 "(x), UID 1000, total-vm:…".
std::optional<std::uint32_t> uid_of_kill(std::string_view text) {
  if (const auto total = text.rfind(") total-vm:"); total != npos) {
    const auto at = text.find(", UID:", total);
    return at == npos ? std::nullopt : uid_at(text.substr(at + 6), " ");
  }
  const auto at = text.rfind("), UID ");
  return at == npos ? std::nullopt : uid_at(text.substr(at + 7), ", ");
}

// The number of the process, and its name, which may hold brackets: "4503 ((sd-pam)) total-vm".
bool read_victim(std::string_view text, KernelEvent& event) {
  const auto process = text.find(" process ");
  if (process == npos) return true;  // "no killable processes"
  std::size_t length = 0;
  std::string_view rest = text.substr(process + 9);
  const auto pid = scan_count(rest, length);
  if (!pid || *pid > 0x7fffffff) return false;
  event.pid = static_cast<std::int64_t>(*pid);
  rest.remove_prefix(length);
  if (!rest.starts_with(" (")) return false;
  const auto end = rest.find(") ");
  if (end != npos && end > 2) event.process = std::string(rest.substr(2, end - 2).substr(0, 64));
  return true;
}

std::optional<KernelEvent> parse_oom(std::string_view text) {
  static constexpr std::array<std::string_view, 7> kStarts{
      "oom-kill:constraint=CONSTRAINT_",
      "Out of memory: Kill",
      "Out of memory (oom_kill_allocating_task): Kill",
      "Memory cgroup out of memory: Kill",
      "Killed process ",  // the second line of kernels before 5.0
      "Out of memory and no killable processes",
      "Kernel panic - not syncing: Out of memory"};
  if (std::none_of(kStarts.begin(), kStarts.end(), [&](auto s) { return text.starts_with(s); }))
    return std::nullopt;
  KernelEvent event = make(KernelClass::OomKill, text);
  if (text.starts_with("oom-kill:")) {
    const auto task = text.rfind(",task=");
    const std::string_view victim = task == npos ? std::string_view{} : text.substr(task);
    event.pid = number_after(victim, ",pid=");
    event.process = std::string(between(victim, ",task=", ',').substr(0, 64));
    event.uid = uid_of_choice(trim(text));
    return event;
  }
  event.uid = uid_of_kill(text);
  return read_victim(text, event) ? std::optional(event) : std::nullopt;
}

// The task's name is short: what a long text holds further on does not count.
std::optional<KernelEvent> parse_hung(std::string_view text) {
  constexpr std::size_t kLongestTask = 32;
  if (text.starts_with("INFO: task ")) {
    const auto blocked = text.find(" blocked for more than ");
    if (blocked > 11 + kLongestTask) return std::nullopt;  // npos too
    const std::string_view task = text.substr(11, blocked - 11);
    const auto colon = task.rfind(':');
    if (colon == npos) return std::nullopt;
    std::size_t length = 0;
    const auto pid = scan_count(task.substr(colon + 1), length);
    if (!pid || colon + 1 + length != task.size() || *pid > 0x7fffffff) return std::nullopt;
    KernelEvent event = make(KernelClass::HungTask, text);
    event.process = std::string(task.substr(0, colon));
    event.pid = static_cast<std::int64_t>(*pid);
    return event;
  }
  for (const std::string_view watchdog : {"NMI watchdog: ", "watchdog: "})
    if (text.starts_with(watchdog)) text.remove_prefix(watchdog.size());
  static constexpr std::array<std::string_view, 3> kStarts{"BUG: soft lockup - CPU#",
                                                           "Watchdog detected hard LOCKUP",
                                                           "Kernel panic - not syncing: hung_task"};
  for (const auto start : kStarts)
    if (text.starts_with(start)) return make(KernelClass::HungTask, text);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> normal_pci(std::string_view text) {
  text = trim(text);
  if (text.starts_with("PCI:")) text.remove_prefix(4);
  while (text.ends_with(':')) text.remove_suffix(1);
  if (const auto dot = text.find('.'); dot != npos) text = text.substr(0, dot);
  std::array<unsigned, 3> parts{};
  std::size_t found = 0;
  while (found < parts.size() && !text.empty()) {
    const auto parsed =
        std::from_chars(text.data(), text.data() + text.size(), parts.at(found), 16);
    if (parsed.ec != std::errc{}) return std::nullopt;
    ++found;
    text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
    if (text.empty()) break;
    if (text.front() != ':') return std::nullopt;
    text.remove_prefix(1);
  }
  if (found < 2 || !text.empty()) return std::nullopt;
  if (found == 2) parts = {0, parts[0], parts[1]};
  if (parts[1] > 0xff || parts[2] > 0xff) return std::nullopt;
  return fmt::format("{:04x}:{:02x}:{:02x}", parts[0], parts[1], parts[2]);
}

std::optional<KernelEvent> parse_kernel_message(std::string_view message) {
  message = message.substr(0, kLongestLine);
  if (led_by_process(message)) return std::nullopt;
  for (const auto parse : {parse_xid, parse_sxid, parse_gpu_lost, parse_oom, parse_hung})
    if (auto event = parse(message)) return event;
  return std::nullopt;
}

std::optional<KernelEvent> parse_kernel_line(std::string_view line) {
  const LineOrigin origin = read_origin(line.substr(0, kLongestLine));
  if (origin.other_program || origin.rank_label) return std::nullopt;
  return parse_kernel_message(origin.kernel_message);
}

std::optional<std::string_view> kernel_record(std::string_view record) {
  const auto text = record.find(';');
  if (text == npos || !read_origin(record.substr(0, text + 1)).kernel_header) return std::nullopt;
  return record.substr(text + 1, record.find('\n', text) - text - 1);
}

}  // namespace stoker::diagnose
