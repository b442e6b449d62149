// One function a class; spellings after drivers 390-595 and kernels 3.10-6.12.
#include "diagnose/parse/kernel_line.hpp"

#include <array>
#include <charconv>
#include <fmt/format.h>

#include "diagnose/input/line_scan.hpp"

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
// rest; "Xid 79" of nvidia-smi's own log is not a kernel line.
std::optional<KernelEvent> parse_xid(std::string_view line) {
  const auto at = line.find("NVRM: Xid (");
  if (at == npos) return std::nullopt;
  const std::string_view text = line.substr(at);
  const auto close = text.find("):");
  if (close == npos) return std::nullopt;
  std::size_t length = 0;
  const auto code = scan_count(trim_left(text.substr(close + 2)), length);
  if (!code || *code > 100'000) return std::nullopt;
  KernelEvent event = make(KernelClass::Xid, text);
  event.xid = static_cast<int>(*code);
  event.gpu_pci = normal_pci(between(text, "Xid (", ')')).value_or("");
  event.pid = number_after(text, "pid=");
  event.process = real_name(between(text, "name=", ','));
  return event;
}

std::optional<KernelEvent> parse_sxid(std::string_view line) {
  const auto mark = line.find(": SXid (");
  if (mark == npos) return std::nullopt;
  const auto at = line.rfind("nvidia-nvswitch", mark);
  if (at == npos) return std::nullopt;
  const std::string_view text = line.substr(at);
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

std::optional<KernelEvent> parse_gpu_lost(std::string_view line) {
  const auto at = line.find("NVRM: ");
  if (at == npos || line.find("fallen off the bus", at) == npos) return std::nullopt;
  const std::string_view text = line.substr(at);
  KernelEvent event = make(KernelClass::GpuLost, text);
  event.gpu_pci = normal_pci(between(text, "GPU ", ' ')).value_or("");
  return event;
}

std::optional<KernelEvent> parse_oom(std::string_view line) {
  static constexpr std::array<std::string_view, 5> kStarts{
      "oom-kill:constraint=", "Out of memory: Kill", "Memory cgroup out of memory: Kill",
      "Out of memory and no killable processes", "Kernel panic - not syncing: Out of memory"};
  std::size_t at = npos;
  for (const auto start : kStarts)
    if ((at = line.find(start)) != npos) break;
  if (at == npos) return std::nullopt;
  const std::string_view text = line.substr(at);
  KernelEvent event = make(KernelClass::OomKill, text);
  if (text.starts_with("oom-kill:")) {
    event.pid = number_after(text, ",pid=");
    event.process = std::string(between(text, ",task=", ',').substr(0, 64));
  } else {
    event.pid = number_after(text, "process ");
    const auto open = text.find(" (");  // "4503 ((sd-pam)) total-vm": the name may hold brackets
    const auto end = text.find(") ", open == npos ? 0 : open);
    if (open != npos && end != npos && end > open + 2)
      event.process = std::string(text.substr(open + 2, end - open - 2).substr(0, 64));
  }
  return event;
}

std::optional<KernelEvent> parse_hung(std::string_view line) {
  if (const auto at = line.find("INFO: task "); at != npos) {
    const auto blocked = line.find(" blocked for more than ", at);
    if (blocked == npos) return std::nullopt;
    KernelEvent event = make(KernelClass::HungTask, line.substr(at));
    const std::string_view task = line.substr(at + 11, blocked - at - 11);
    const auto colon = task.rfind(':');
    if (colon != npos) {
      std::size_t length = 0;
      event.process = std::string(task.substr(0, colon).substr(0, 64));
      if (const auto pid = scan_count(task.substr(colon + 1), length))
        event.pid = static_cast<std::int64_t>(*pid & 0x7fffffff);
    }
    return event;
  }
  static constexpr std::array<std::string_view, 3> kStarts{"BUG: soft lockup - CPU#",
                                                           "Watchdog detected hard LOCKUP",
                                                           "Kernel panic - not syncing: hung_task"};
  for (const auto start : kStarts)
    if (const auto at = line.find(start); at != npos)
      return make(KernelClass::HungTask, line.substr(at));
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

std::optional<KernelEvent> parse_kernel_line(std::string_view line) {
  line = line.substr(0, kLongestLine);
  for (const auto parse : {parse_xid, parse_sxid, parse_gpu_lost, parse_oom, parse_hung})
    if (auto event = parse(line)) return event;
  return std::nullopt;
}

}  // namespace stoker::diagnose
