// Names that users choose, as the kernel prints them, and lines of other programs in its log: no
// evidence. The forms are those of kernels 3.10-6.12 and of rsyslog, journald and dmesg.
#include <doctest/doctest.h>

#include "detector.hpp"
#include "diagnose/input/line_origin.hpp"
#include "diagnose/parse/kernel_begin.hpp"
#include "diagnose/parse/kernel_line.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

constexpr const char* kXid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.";

// Words that accuse a node when the kernel says them.
const std::vector<std::string> kWords{
    kXid,
    "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "NVRM: GPU 0000:91:00.0: GPU has fallen off the bus.",
    "mlx5_core 0000:41:00.0 ib0: Link down",
    "mlx5_core 0000:41:00.0: print_health_info:458:(pid 0): synd 0x8: unrecoverable hardware error",
    "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: id=0008",
    "NMI watchdog: Watchdog detected hard LOCKUP on cpu 12",
    "BUG: soft lockup - CPU#18 stuck for 27s! [python3:2254956]",
    "blk_update_request: I/O error, dev nvme0n1, sector 123456",
    "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 7: be00000000800400",
    "amdgpu 0000:c1:00.0: amdgpu: device lost from bus!",
    "JBD2: I/O error detected when updating journal superblock for nvme0n1p1-8.",
    "BTRFS error (device sda1): bdev /dev/sda1 errs: wr 1, rd 0, flush 0, corrupt 0, gen 0",
    "EXT4-fs error (device sda1): ext4_find_entry:1463: inode #2: comm python: reading directory",
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0",
    "sd 0:0:0:0: [sda] tag#12 Sense Key : Medium Error [current]",
    "sd 8:0:42:0: rejecting I/O to offline device",
    "bnxt_en 0000:18:00.0 eno1: NIC Link is Down",
    "detected NVSwitch fatal error 20034 on fid 0",
    "[E] Lost membership in cluster CLUSTER.nsd01. Unmounting file systems."};

// What the kernel prints around a name of any length.
std::vector<std::string> around(const std::string& name) {
  const std::string comm = name.substr(0, 15);
  return {
      "x[4711]: segfault at 0 ip 00007f3a sp 00007ffc error 4 in " + name + "[7f3a000+1000]",
      comm + "[4711]: segfault at 0 ip 00007f3a sp 00007ffc error 4 in " + name + "[7f3a000+1000]",
      comm + "[4711] bad frame in sigreturn frame:0000 ip:7f sp:7f in " + name + "[7f3a000+1000]",
      "traps: " + comm + "[4711] trap invalid opcode ip:7f sp:7f error:0 in " + name + "[7f+1000]",
      comm + ": page allocation failure: order:0, mode:0x0, nodemask=(null),cpuset=" + name,
      comm + " cpuset=" + name + " mems_allowed=0",
      "mmap: " + comm + " (4711): VmData 4096 exceed data ulimit 0. Update limits",
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=" + name +
          ",mems_allowed=0,oom_memcg=/" + name + ",task_memcg=/" + name + ",task=x,pid=1,uid=1001",
      "audit: type=1400 audit(1.2:3): apparmor=\"DENIED\" operation=\"open\" name=\"" + name + "\"",
      "tmpfs: Unknown parameter '" + name + "'",
      "process '" + name + "' started with executable stack",
      "EXT4-fs warning (device sda1): ext4_dirblock: inode #2: comm " + comm + ": " + name,
      "overlayfs: failed to resolve '" + name + "': -2",
      "usb 1-1: Product: " + name};
}

std::vector<std::string> excluded(const std::string& log, bool kernel_log) {
  return find_cause({scan_text(detector(), log, "kern-n02.log", 0, kernel_log)},
                    detector().knowledge().causes)
      .exclude;
}

}  // namespace

TEST_CASE("kernel forge: words that accuse, behind each header -> the node is named") {
  for (std::size_t i = 0; i + 2 < kWords.size(); ++i)  // the last two are other programs' words
    for (const char* header :
         {"Jun 10 03:09:55 n02 kernel: ", "Jun 10 03:09:55 n02 kernel: [ 1234.567890] ",
          "2025-03-05T01:02:03.000004+09:00 n02 kernel: ", "[ 1234.567890] ",
          "<4>[ 1234.567890][ T1042] ", "4,1234,206764307,-;", "4,1234,206764307,-,caller=T1;",
          "kern  :warn  : 2025-01-21T08:41:30,287197+00:00 ", "[Fri Aug 30 11:43:14 2024] ",
          "<4>1 2024-06-10T03:09:55Z n02 kernel - - - "}) {
      CAPTURE(std::string(header) + kWords[i]);
      CHECK(excluded(header + kWords[i] + "\n", true) == std::vector<std::string>{"n02"});
    }
}

TEST_CASE("kernel forge: a name of a process, a file or a cgroup in the kernel's line -> nothing") {
  for (const std::string& words : kWords)
    for (const char* comm : {"", "NVRM: ", "NVRM: Xid (0):7", "e: Link is Down", "mlx5_core 0",
                             "INFO: task x:77", "[1.1] NVRM: ", "kernel: NVRM: ", "cxi0 "})
      for (const std::string& message : around(comm + words))
        for (const bool named : {false, true}) {
          CAPTURE(message);
          CHECK_FALSE(parse_kernel_message(message).value_or(KernelEvent{}).xid);
          for (const char* header : {"[ 1234.567890] ", "Jun 10 03:09:55 n02 kernel: "})
            CHECK(excluded(header + message + "\n", named).empty());
        }
}

TEST_CASE("kernel forge: other text in front of the words -> no event") {
  for (const std::string& message :
       {std::string("x NVRM: Xid (PCI:0000:3b:00): 79, x"), "x: " + std::string(kXid),
        std::string("NVRM: Xid (0):7[4711]: segfault at 0 ip 0 sp 0 error 4 in x[7f+1]"),
        std::string("INFO: task x:77[4711]: segfault at 0 ip 00007f3a sp 00007ffc error 4 in a"
                    ":7 blocked for more than 120 seconds.[7f3a000+1000]"),
        std::string("NVRM: [4711]: segfault at 0 ip 0 sp 0 error 4 in fallen off the bus[7f+1]"),
        std::string("Killed process [4711]: segfault at 0 ip 0 sp 0 error 4 in x[7f+1]")})
    CHECK_MESSAGE(!parse_kernel_message(message), message);
}

TEST_CASE("kernel forge: a record of /dev/kmsg -> its text; a fragment, another facility -> none") {
  CHECK(kernel_record("4,1234,206764307,-;NVRM: x\n SUBSYSTEM=pci\n") == "NVRM: x");
  CHECK(kernel_record("4,1234,206764307,-,caller=T12;a;b") == "a;b");
  for (const char* record : {"4,1234,206764307,c;NVRM: x", "4,1234,206764307,+;NVRM: x",
                             "30,1234,206764307,-;NVRM: x", "12,1,2,-;x", ";x", "x", ""})
    CHECK_MESSAGE(!kernel_record(record), record);
}

TEST_CASE(
    "kernel forge: a line without a header in a log that has them -> goes on with its record") {
  for (const std::string torn : {"[ 12.5] x[4711]: segfault at 0 ip 0 sp 0 error 4 in a\n",
                                 "[ 12.5] tmpfs: Unknown parameter 'a\n"})
    CHECK(excluded(torn + kXid + "\n", true).empty());
  CHECK(excluded(std::string(kXid) + "\n", true) == std::vector<std::string>{"n02"});
}

TEST_CASE("kernel forge: another program's line in a kernel log -> no evidence") {
  for (const std::string& words : kWords)
    for (const char* header :
         {"Jun 10 03:09:55 n02 evil[4711]: ", "Jun 10 03:09:55 n02 evil: ", "Jun 10 03:09:55 n02 ",
          "Jun 10 03:09:55 n02 x kernel: ", "Jun 10 03:09:55 n02 evil[4711]: kernel: ",
          "Jun 10 03:09:55 n02 evil[1]: [ 12.5] ",
          "Jun 10 03:09:55 n02 evil[1]: Jun 10 03:09:55 n02 kernel: ",
          "2025-03-05T01:02:03.000004+09:00 n02 evil[4711]: ",
          "2025-03-05T01:02:03.000004+09:00 n02 ", "<13>1 2024-06-10T03:09:55Z n02 kernel - - - ",
          "<13>1 2024-06-10T03:09:55Z n02 evil 4711 - - ", "30,1234,206764307,-;",
          "4,1234,206764307,c;", "<30>[ 12.5] ", "user  :notice: [ 12.5] "}) {
      CAPTURE(header + words);
      CHECK(
          excluded("Jun 10 03:09:54 n02 systemd[1]: Started Session 4.\n" + (header + words) + "\n",
                   true)
              .empty());
    }
}

TEST_CASE("kernel forge: whose kill -> the kernel's own last word, unless the line is cut off") {
  const auto uid = [](const std::string& text) {
    const auto event = parse_kernel_message(text);
    REQUIRE_MESSAGE(event, text);
    CHECK(event->event_class == KernelClass::OomKill);
    return event->uid;
  };
  const std::string kill = "Memory cgroup out of memory: Killed process 7 (";
  CHECK(uid(kill + "python) total-vm:1kB, anon-rss:1kB, UID:1000 pgtables:1kB") == 1000u);
  CHECK(uid(kill + "x, UID:1000 ) total-vm:1kB, UID:2000 pgtables:1kB") == 2000u);
  CHECK(uid(kill + "), UID 1000, ) total-vm:1kB, anon-rss:1kB") == std::nullopt);
  CHECK(uid(kill + "python) total-vm:1kB, anon-rss:1kB") == std::nullopt);
  CHECK(uid("Killed process 7 (python), UID 1000, total-vm:1kB, anon-rss:1kB") == 1000u);
  CHECK(uid("Killed process 7 (), UID 1, ), UID 2000, total-vm:1kB") == 2000u);
  const std::string choice = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task_memcg=/";
  CHECK(uid(choice + "a,task=x,pid=7,uid=1000") == 1000u);
  CHECK(uid(choice + "a,task=,uid=1000,pid=7,uid=2000") == 2000u);
  CHECK(uid(choice + std::string(950, 'a') + ",task=x,pid=7,uid=1000") == std::nullopt);
  CHECK(uid(choice + "a,uid=1000/b") == std::nullopt);
}

TEST_CASE("kernel forge: kills of others, links of a user's own bond -> named, no node left out") {
  for (const char* line :
       {"[ 1.5] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=x,pid=7,uid=2000\n",
        "[ 1.5] Memory cgroup out of memory: Killed process 7 (x) total-vm:1kB, UID:2000 pg\n",
        "[ 1.5] bond0: (slave v0): link status definitely down, disabling slave\n"}) {
    CAPTURE(line);
    CHECK(excluded(line, true).empty());
    CHECK(find_cause({scan_text(detector(), line, "kern-n02.log", 0, true)},
                     detector().knowledge().causes)
              .failure_class != FailureClass::Healthy);
  }
}
