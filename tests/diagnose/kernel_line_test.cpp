// Kernel lines as kernels and drivers print them (captured, see the comments of the corpus).
#include "diagnose/parse/kernel_line.hpp"

#include <doctest/doctest.h>
#include <fstream>
#include <iostream>
#include <set>

#include "diagnose/input/line_origin.hpp"

using namespace stoker;
using namespace stoker::diagnose;

TEST_CASE("kernel line: Xid in all its spellings -> code and PCI address") {
  struct Case {
    const char* line;
    int xid;
    const char* pci;
  };
  for (const Case& c : {
           Case{"[Fri Aug 30 11:43:09 2024] NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', "
                "name=<unknown>, Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0)",
                13, "0000:cb:00"},
           Case{"NVRM: Xid (0000:01:00): 16, ", 16, "0000:01:00"},
           Case{"NVRM: Xid (PCI:000f:01:00): 119, pid=3849, name=KMS thread, Timeout after 45s",
                119, "000f:01:00"},
           Case{"2024-11-15T12:02:03,498753+00:00 NVRM: Xid (PCI:0000:19:00): 63, pid=1, "
                "name=x, Row Remapper",
                63, "0000:19:00"},
           Case{"4,1234,206764307,-;NVRM: Xid (PCI:0009:01:00): 149, NETIR_LINK_EVT  Fatal", 149,
                "0009:01:00"},
           Case{"May 19 07:08:57 ip-26-0-146-100 kernel: [680111.646286] NVRM: Xid "
                "(PCI:0000:10:1C): 63, pid=1850, Row Remapper",
                63, "0000:10:1c"},
       }) {
    const auto event = parse_kernel_line(c.line);
    REQUIRE_MESSAGE(event, c.line);
    CHECK(event->event_class == KernelClass::Xid);
    CHECK(event->xid == c.xid);
    CHECK(event->gpu_pci == c.pci);
    CHECK(event->text.starts_with("NVRM: Xid"));
  }
  const auto named =
      parse_kernel_line("NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout");
  CHECK(named->pid == 2024380);
  CHECK(named->process == "nvidia-smi");
}

TEST_CASE("kernel line: the time in its header -> milliseconds; a year that cannot be -> none") {
  const char* const kXid = " NVRM: Xid (PCI:0000:cb:00): 109, pid=1";
  CHECK(read_origin(std::string("[Fri Aug 30 11:43:14 2024]") + kXid).time_ms == 1725018194000);
  for (const char* header :
       {"[Fri Aug 30 11:43:14 3024]", "[Fri Aug 30 11:43:14 0024]", "[Fri Feb 30 11:43:14 2024]"}) {
    const std::string line = std::string(header) + kXid;
    const auto origin = read_origin(line);
    CHECK_MESSAGE(!origin.time_ms, line);
    CHECK_MESSAGE(origin.kernel_header, line);
    CHECK_MESSAGE(origin.message.starts_with("NVRM"), line);
  }
}

TEST_CASE("kernel line: SXid -> code and severity; its detail lines -> none") {
  const auto event = parse_kernel_line(
      "[60.0] nvidia-nvswitch3: SXid (PCI:0000:0a:00.0): 22013, Non-fatal, Link 55 Minion Link");
  REQUIRE(event);
  CHECK(event->event_class == KernelClass::Sxid);
  CHECK(event->xid == 22013);
  CHECK(event->gpu_pci == "0000:0a:00");
  CHECK(event->severity == "Non-fatal");
  CHECK_FALSE(
      parse_kernel_line("nvidia-nvswitch2: SXid (PCI:0000:07:00.0): 20034, Severity 1 Eng"));
  CHECK_FALSE(parse_kernel_line("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Data {0x1}"));
}

TEST_CASE("kernel line: out of memory -> the victim") {
  const auto killed = parse_kernel_line(
      "[29924.805991] Out of memory: Killed process 4503 ((sd-pam)) total-vm:173972kB, "
      "anon-rss:0kB");
  REQUIRE(killed);
  CHECK(killed->event_class == KernelClass::OomKill);
  CHECK(killed->pid == 4503);
  CHECK(killed->process == "(sd-pam)");
  const auto constraint = parse_kernel_line(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/k,"
      "task_memcg=/k,task=python3,pid=19667,uid=0");
  REQUIRE(constraint);
  CHECK(constraint->pid == 19667);
  CHECK(constraint->process == "python3");
  CHECK(parse_kernel_line("Memory cgroup out of memory: Kill process 1012 (heapster) score 1035"));
  CHECK_FALSE(parse_kernel_line("oom_reaper: reaped process 345646 (vector), now anon-rss:0kB"));
}

TEST_CASE("kernel line: hung tasks -> the task; ordinary lines -> none") {
  const auto hung = parse_kernel_line(
      "[767.964958][ T1042] INFO: task python:280058 blocked for more than 143 s");
  REQUIRE(hung);
  CHECK(hung->event_class == KernelClass::HungTask);
  CHECK(hung->process == "python");
  CHECK(hung->pid == 280058);
  CHECK(parse_kernel_line("watchdog: BUG: soft lockup - CPU#18 stuck for 27s! [python3:2254956]"));
  const auto lost = parse_kernel_line("NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.");
  REQUIRE(lost);
  CHECK(lost->event_class == KernelClass::GpuLost);
  CHECK(lost->gpu_pci == "0000:91:00");
  for (const char* line : {"NVRM: GPU at PCI:0000:9b:00: GPU-509665ad", "NVRM: Xid", "NVRM: Xid (",
                           "NVRM: Xid ():", "NVRM: Xid (PCI:0000:9b:00): many",
                           "nvidia-nvlink: Nvlink Core is being initialized", ""})
    CHECK_MESSAGE(!parse_kernel_line(line), line);
}

TEST_CASE("kernel line: the table of captured lines -> its subsystems are recognised") {
  const std::string path = std::string(STOKER_SOURCE_DIR) + "/../shared/data/kernel-lines.tsv";
  std::ifstream table(path);
  if (!table) {
    std::cout << "SKIPPED: no table of kernel lines at " << path << "\n";
    return;
  }
  std::string text;
  std::getline(table, text);
  int seen = 0;
  while (std::getline(table, text)) {
    std::vector<std::string> cells;
    for (std::size_t from = 0; from <= text.size();) {
      const auto tab = std::min(text.find('\t', from), text.size());
      cells.push_back(text.substr(from, tab - from));
      from = tab + 1;
    }
    REQUIRE(cells.size() >= 5);
    const bool ours = cells[0] == "oom-kill" || cells[0] == "hung task" ||
                      cells[4].find("NVRM: Xid") != std::string::npos ||
                      cells[4].find("fallen off") != std::string::npos ||
                      (cells[4].find("SXid") != std::string::npos &&
                       cells[4].find("Severity") == std::string::npos);
    const bool benign = cells[1] == "benign";
    const auto event = parse_kernel_line(cells[4]);
    CHECK_MESSAGE(event.has_value() == (ours && !benign), cells[4]);
    seen += event.has_value() ? 1 : 0;
  }
  CHECK(seen >= 10);
}
