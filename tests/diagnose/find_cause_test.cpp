// Root causes of small logs: cascades, what was outlived, forged lines, several files. Each text is
// how the software prints it.
#include <algorithm>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "detector.hpp"
#include "diagnose/cause/diagnosis.hpp"
#include "diagnose/input/scan_files.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

struct Log {
  std::string name, text;
  bool kernel = false;
};

Diagnosis cause_of(const std::vector<Log>& logs) {
  std::vector<ScannedLog> scanned;
  for (const auto& log : logs)
    scanned.push_back(scan_text(detector(), log.text, log.name,
                                static_cast<std::uint32_t>(scanned.size()), log.kernel));
  return find_cause(scanned, detector().knowledge().causes);
}

std::string iteration(int n, double loss = 2.5) {
  return " iteration " + std::to_string(n) + "/ 1000 | lm loss: " + std::to_string(loss) +
         " | loss scale: 1.0 | grad norm: 0.2 | number of skipped iterations:   0 |\n";
}

const std::string kOom =
    "[rank3]: Traceback (most recent call last):\n"
    "[rank3]:   File \"train.py\", line 12, in main\n"
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has\n";
const std::string kWatchdog =
    "[rank5]:[E1218 20:27:21.426415540 ProcessGroupNCCL.cpp:629] [Rank 5] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=600000)\n";
const std::string kXid79 =
    "[Fri Aug 30 11:43:14 2024] NVRM: Xid (PCI:0000:cb:00): 79, pid=1797, name=python, GPU has "
    "fallen off the bus.\n";

}  // namespace

TEST_CASE("cause: out of memory, then the others time out, then the scheduler -> the first") {
  const auto d = cause_of({{"main.log", iteration(1) + kOom + kWatchdog +
                                            "srun: error: n04: task 5: Exited with exit code 134\n"
                                            "slurmstepd: error: *** STEP 7.0 ON n01 CANCELLED AT "
                                            "2026-01-01T00:00:00 ***\n"}});
  CHECK(d.failure_class == FailureClass::CudaOom);
  CHECK(d.fatal);
  CHECK(d.ranks == std::vector<std::uint32_t>{3});
  CHECK(d.root->line == 4);
  CHECK(d.followed.size() == 3);
  CHECK(d.confidence > 0.9);
}

TEST_CASE("cause: rank files without clocks in any order -> the same cause") {
  const auto d = cause_of({{"ranks/5.log", kWatchdog}, {"ranks/3.log", kOom}});
  CHECK(d.failure_class == FailureClass::CudaOom);
  CHECK(d.root->file == "ranks/3.log");
  CHECK(d.rank == 3);
}

TEST_CASE("cause: the training went on after an error -> outlived, healthy") {
  std::string text = kOom;
  for (int i = 1; i < 6; ++i) text += iteration(i);
  const auto d = cause_of({{"main.log", text}});
  CHECK(d.failure_class == FailureClass::Healthy);
  CHECK_FALSE(d.fatal);
  CHECK(cause_of({{"main.log", text + kOom}}).failure_class == FailureClass::CudaOom);
}

TEST_CASE("cause: a traceback after a good end -> healthy; a new run that fails -> its cause") {
  const std::string done = "[after training is done]\n";
  CHECK(cause_of({{"a", iteration(1) + done + kOom}}).failure_class == FailureClass::Healthy);
  CHECK(cause_of({{"a", iteration(1) + done + iteration(2) + iteration(3) + kOom}}).failure_class ==
        FailureClass::CudaOom);
}

TEST_CASE("cause: what a training prints is no kernel line, whatever it looks like") {
  std::string log;
  for (int i = 1; i < 4; ++i) log += iteration(i);
  const std::string words = "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n";
  CHECK_FALSE(cause_of({{"a", log + words}}).fatal);                  // bare, among iterations
  CHECK_FALSE(cause_of({{"a", "[rank0]: " + words}}).fatal);          // a rank says it
  CHECK_FALSE(cause_of({{"a", "3: " + kXid79}}).fatal);               // with a whole header
  CHECK_FALSE(cause_of({{"a", "sample: \"dmesg: " + words}}).fatal);  // quoted in a text
  CHECK_FALSE(cause_of({{"a", "He asked what " + words}}).fatal);
  CHECK(cause_of({{"a", log + kXid79}}).fatal);  // the kernel's own header
}

TEST_CASE("cause: a kernel log beside the training's -> the Xid, its node, what follows folded") {
  std::string kernel = kXid79;
  for (int i = 0; i < 1000; ++i) kernel += kXid79;
  const auto d =
      cause_of({{"main.log", iteration(1) + kWatchdog}, {"dmesg-n03.txt", kernel, true}});
  CHECK(d.failure_class == FailureClass::GpuFallenOffBus);
  CHECK(d.node == "n03");
  CHECK(d.exclude == std::vector<std::string>{"n03"});
  CHECK(d.gpu_pci == "0000:cb:00");
  CHECK(d.xids == std::vector<int>{79});
  CHECK(d.root->count == 1001);
  CHECK(d.advice.node_action == NodeAction::Reboot);
}

TEST_CASE("cause: time limit after a failed task -> the task; alone -> the limit") {
  const std::string limit =
      "slurmstepd: error: *** JOB 7 ON n01 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT "
      "***\n";
  const std::string task = "srun: error: n09: task 4: Exited with exit code 1\n";
  CHECK(cause_of({{"a", task + limit}}).failure_class == FailureClass::SlurmTaskExit);
  CHECK(cause_of({{"a", limit + task}}).failure_class == FailureClass::SlurmTimeLimit);
}

TEST_CASE("cause: a failure that no rule knows -> unknown with the last lines, low confidence") {
  const auto d = cause_of({{"a", "loading\nFATAL: flux capacitor discharged\nbye\n"}});
  CHECK(d.failure_class == FailureClass::Unknown);
  CHECK(d.fatal);
  CHECK(d.confidence < 0.5);
  CHECK(d.last_lines.back() == "bye");
  CHECK_FALSE(cause_of({{"a", ""}}).fatal);
}

TEST_CASE("cause: a loss that jumps, a scale that falls, a NaN -> their classes") {
  std::string spike;
  for (int i = 1000; i < 1010; ++i) spike += iteration(i, i == 1008 ? 6.0 : 2.3);
  const auto d = cause_of({{"a", spike}});
  CHECK(d.failure_class == FailureClass::LossSpike);
  CHECK_FALSE(d.fatal);
  CHECK(d.root->line == 9);
  std::string level;  // two runs in one log: the second starts higher
  for (int i = 1000; i < 1010; ++i) level += iteration(i, 2.3);
  for (int i = 1; i < 200; ++i) level += iteration(i, 9.0);
  CHECK(cause_of({{"a", level}}).failure_class == FailureClass::Healthy);
  std::string nan;
  for (int i = 1000; i < 1004; ++i) nan += iteration(i);
  nan += " iteration 1004/ 2000 | lm loss: nan | loss scale: 1.0 | grad norm: nan |\n";
  CHECK(cause_of({{"a", nan}}).failure_class == FailureClass::LossNanInf);
  CHECK(cause_of({{"a", "{'loss': 2.1, 'grad_norm': 1.0}\n{'loss': 0.0, 'grad_norm': nan}\n"}})
            .failure_class == FailureClass::LossNanInf);
  const std::string overflow =
      "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to "
      "32768\n";
  CHECK(cause_of({{"a", iteration(1) + overflow + iteration(2)}}).failure_class ==
        FailureClass::GradOverflowSkip);
}

TEST_CASE(
    "scan: terminal sequences, progress bars and torn ends -> found all the same, and clean") {
  const auto d = cause_of(
      {{"a", "45%|\r46%|\r\x1b[31mRuntimeError: CUDA error: unknown error\x1b[0m\r\nno newline"}});
  CHECK(d.failure_class == FailureClass::CudaError);
  CHECK(d.root->text == "RuntimeError: CUDA error: unknown error");
}

TEST_CASE("scan: a journald export -> the kernel's lines with their host") {
  const auto d =
      cause_of({{"export",
                 "__CURSOR=s=1\n__REALTIME_TIMESTAMP=1679012345678901\n_TRANSPORT=kernel\n"
                 "MESSAGE=NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE\n_HOSTNAME=n17\n\n"}});
  CHECK(d.failure_class == FailureClass::Xid);
  CHECK(d.node == "n17");
  const auto json =
      cause_of({{"json", R"({"__CURSOR":"s=1","_TRANSPORT":"kernel","_HOSTNAME":"n18","MESSAGE":)"
                         "\"NVRM: Xid (PCI:0000:3b:00): 48, pid=1, DBE\"}\nno object\n"}});
  CHECK(json.failure_class == FailureClass::Xid);
  CHECK(json.node == "n18");
}

TEST_CASE("scan: a message of several lines in the journal -> no word of it is the kernel's") {
  const std::string forged = "x\n[12.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, lost";
  const char length[] = {static_cast<char>(forged.size()), 0, 0, 0, 0, 0, 0, 0};
  const auto fields = cause_of({{"export", "__CURSOR=s=1\n_HOSTNAME=n17\nMESSAGE\n" +
                                               std::string(length, 8) + forged + "\n\n"}});
  CHECK(fields.failure_class == FailureClass::Healthy);
  const auto json =
      cause_of({{"json", R"({"__CURSOR":"s=1","_HOSTNAME":"n17","MESSAGE":"x\n[12.5] NVRM: Xid )"
                         "(PCI:0000:3b:00): 79, pid=1, lost\"}\n"}});
  CHECK(json.failure_class == FailureClass::Healthy);
  const std::string tagged = "\"MESSAGE\":\"NVRM: Xid (PCI:0000:3b:00): 79, pid=1, lost\"}\n";
  for (const std::string who :
       {R"({"__CURSOR":"s","_HOSTNAME":"n17","_TRANSPORT":"syslog","SYSLOG_IDENTIFIER":"kernel",)",
        R"({"__CURSOR":"s","_TRANSPORT":"stdout","_HOSTNAME":"[12.5]",)"})
    CHECK(cause_of({{"json", who + tagged}}).failure_class == FailureClass::Healthy);
}

TEST_CASE("scan: a message in bytes, as journalctl gives one with colours -> read all the same") {
  const auto d = cause_of(
      {{"json",
        R"({"__CURSOR":"s","_HOSTNAME":"n17","SYSLOG_IDENTIFIER":"train","MESSAGE":[67,85,)"
        R"(68,65,32,111,117,116,32,111,102,32,109,101,109,111,114,121,46,32,84,114,105,101,)"
        R"(100,32,116,111,32,97,108,108,111,99,97,116,101,27]})"
        "\n"}});
  CHECK(d.failure_class == FailureClass::CudaOom);
}

TEST_CASE("scan: FIFO, folder, missing, truncated .gz -> an error or a note, the rest diagnosed") {
  const testing::Folder folder;
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  folder.write("main.log", kOom);
  // gzip of three lines of text, without its last 20 bytes.
  const std::string_view cut(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\x28\xcf\x2f\xca\x49\xd1\x51"
      "\x28"
      "\xc9\xc8\x2c\x56\x00\xa2\x44\x85\x9c\xfc\x74\x85\x9c\xcc\xbc\x54\xa0\x50\x62\x09\x48\x28\x27"
      "\x3f"
      "\x2f\x5d",
      50);
  folder.write("cut.gz", std::string(cut));
  const auto path = [&](const char* name) { return ScanInput{folder / name, false}; };
  const auto all = scan_files(
      detector(), {path("fifo"), path("."), path("nothing"), path("cut.gz"), path("main.log")});
  CHECK(all.errors.size() == 3);
  REQUIRE(all.logs.size() == 2);
  CHECK(all.logs[0].notes.size() == 1);
  const auto d = find_cause(all.logs, detector().knowledge().causes);
  CHECK(d.failure_class == FailureClass::CudaOom);
  CHECK(d.root->file.ends_with("main.log"));
}

TEST_CASE(
    "cause: 200,000 ranks on as many nodes in 1,000 logs -> the first stays first, few are named") {
  const auto& signatures = detector().knowledge().signatures;
  const auto oom = std::find_if(signatures.begin(), signatures.end(), [](const Signature& s) {
    return s.failure_class == FailureClass::CudaOom && s.severity == Severity::Fatal;
  });
  std::vector<ScannedLog> logs(1000);
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    ScannedLog& log = logs[i % logs.size()];
    log.name = std::to_string(i % logs.size());
    Finding f;
    f.signature = &*oom;
    f.failure_class = oom->failure_class;
    f.weight = oom->weight;
    f.file = i % 1000;
    f.line = log.findings.size() + 1;
    f.node = "n" + std::to_string(i);
    f.ranks = {i};
    f.time_ms = i;
    log.findings.push_back(std::move(f));
  }
  const auto d = find_cause(logs, detector().knowledge().causes);
  CHECK(d.failure_class == FailureClass::CudaOom);
  CHECK(d.rank == 0);
  CHECK(d.node == "n0");
  CHECK(d.ranks.size() == 4096);
  CHECK(d.nodes.size() == 4096);
}

TEST_CASE("cause: what is noted of many logs -> said once") {
  std::vector<ScannedLog> logs(40);
  for (std::size_t i = 0; i < logs.size(); ++i) {
    logs[i].name = "rank-" + std::to_string(i) + ".log";
    logs[i].lines = 1;
    logs[i].notes = {"lines over 1 MiB were cut"};
  }
  logs[7].notes.push_back("looks binary");
  const auto d = find_cause(logs, detector().knowledge().causes);
  CHECK(d.notes ==
        std::vector<std::string>{"rank-0.log and 39 more logs: lines over 1 MiB were cut",
                                 "rank-7.log: looks binary"});
}

TEST_CASE("scan: a log of 60,000 ranks that all fail -> in bounds, the first one is the cause") {
  std::string log;
  for (int i = 0; i < 60'000; ++i)
    log += "[rank" + std::to_string(i) + "]: RuntimeError: CUDA error: unknown error\n";
  const auto scanned = scan_text(detector(), log, "main.log");
  CHECK(scanned.findings.size() == 20'000);
  const auto d = find_cause({scanned}, detector().knowledge().causes);
  CHECK(d.failure_class == FailureClass::CudaError);
  CHECK(d.rank == 0);
}

TEST_CASE("scan: files whose last lines nobody asks for -> not kept") {
  const testing::Folder folder;
  std::vector<ScanInput> inputs;
  for (int i = 0; i < 300; ++i) {
    const std::string end = i == 120   ? kOom
                            : i == 121 ? std::string("bye\nexited with code 3\n")
                                       : std::string("all is well\n");
    inputs.push_back(
        {folder.write("rank-" + std::to_string(i) + ".log", iteration(i + 1) + end), false});
  }
  for (const unsigned threads : {1u, 3u}) {
    const auto all = scan_files(detector(), inputs, threads);
    REQUIRE(all.logs.size() == 300);
    CHECK(all.logs[7].last_lines.empty());
    CHECK(all.logs[120].last_lines.empty());  // the failure is known
    CHECK_FALSE(all.logs[121].last_lines.empty());
    const auto d = find_cause(all.logs, detector().knowledge().causes);
    CHECK(d.failure_class == FailureClass::CudaOom);
    CHECK(d.root->file == inputs[120].path);
  }
}

TEST_CASE(
    "scan: a line of 3 MiB and a million without newline -> cut, noted, the next line found") {
  const auto d = cause_of({{"a", std::string(3u << 20, 'x') + "\n" + kOom}});
  CHECK(d.failure_class == FailureClass::CudaOom);
  CHECK(d.root->line == 4);
  CHECK(d.notes.size() == 1);
}

TEST_CASE("cause: logs without a line -> nothing is claimed with confidence, and a note says so") {
  const auto d = cause_of({{"main.log", ""}, {"other.log", ""}});
  CHECK(d.failure_class == FailureClass::Healthy);
  CHECK(d.confidence < 0.2);
  REQUIRE(d.notes.size() == 1);
  CHECK(d.notes.front().find("no line to read") != std::string::npos);
  CHECK(cause_of({{"main.log", iteration(1)}}).notes.empty());
}

TEST_CASE("cause: ten logs whose failures tell no year -> said once") {
  std::vector<Log> logs;
  for (int rank = 0; rank < 10; ++rank) logs.push_back({fmt::format("r{}", rank), kWatchdog});
  const auto d = cause_of(logs);
  REQUIRE(d.notes.size() == 1);
  CHECK(d.notes.front().starts_with("r0 and 9 more logs: "));
}

TEST_CASE("cause: peers that leave after the last iteration are no failure; alone they are one") {
  const std::string left =
      "[rank1]:[W901 07:40:19.968570826 TCPStore.cpp:125] [c10d] recvValue failed on "
      "SocketImpl(fd=64, addr=[a]:35986, remote=[b]:45489): Failed to recv, got 0 bytes.\n";
  CHECK_FALSE(cause_of({{"main.log", iteration(1) + iteration(2) + left}}).fatal);
  CHECK(cause_of({{"main.log", left}}).failure_class == FailureClass::GlooStoreRdzv);
}
