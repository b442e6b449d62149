// Kernel-log lines that bear on a training: NVRM Xid, NVSwitch SXid, a GPU gone from the bus, the
// out-of-memory killer, hung tasks and lockups. The message must begin with them: see
// kernel_begin.hpp. What a code means and what to do about it is data (configs/), not here.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/json.hpp"

namespace stoker::diagnose {

enum class KernelClass { Xid, Sxid, GpuLost, OomKill, HungTask };

}  // namespace stoker::diagnose

template <>
struct stoker::EnumNames<stoker::diagnose::KernelClass> {
  static constexpr std::array names{"xid", "sxid", "gpu_fallen_off_bus", "oom_kill", "hung_task"};
};

namespace stoker::diagnose {

struct KernelEvent {
  KernelClass event_class = KernelClass::Xid;
  std::optional<int> xid;  // of Xid and Sxid
  // "0000:cb:00": domain, bus, device in lower case, without the function; "" = unknown.
  std::string gpu_pci;
  std::string severity;  // of an SXid: "Fatal" or "Non-fatal", "" = unknown on this line
  std::optional<std::int64_t> pid;
  std::string process;               // the victim or the stuck task
  std::optional<std::uint32_t> uid;  // the victim's, where the kernel is new enough to print it
  std::string text;                  // from the message on, without time stamps, at most 512 bytes
};

// `message` begins with the kernel's own words. Empty: no such one. Follow-up lines (call traces,
// oom_reaper, SXid data) do not count.
std::optional<KernelEvent> parse_kernel_message(std::string_view message);
// A line with or without the headers of a kernel log. Empty also: it names another program.
std::optional<KernelEvent> parse_kernel_line(std::string_view line);

// The text of a record of /dev/kmsg ("6,339,5140900,-;text\n KEY=value…"). Empty: what is in it is
// not the kernel's own (another facility), or a fragment of a line that others tore, which may
// begin with anything.
std::optional<std::string_view> kernel_record(std::string_view record);

// "PCI:0000:06:00.0", "0000:CB:00" and similar in the normal form above; empty when malformed.
std::optional<std::string> normal_pci(std::string_view text);

}  // namespace stoker::diagnose
