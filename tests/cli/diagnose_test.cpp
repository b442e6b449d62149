// stoker diagnose: the page, the JSON of the contract, what a person names, bad input.
#include <sys/stat.h>

#include "site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

namespace {

const std::string kOutOfMemory =
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has\n"
    "srun: error: n04: task 3: Exited with exit code 1\n";

}  // namespace

TEST_CASE("diagnose: a folder and a pattern -> one page with cause, place and advice") {
  const Site site;
  const std::string logs = site.folder() + "/logs";
  site.write(logs + "/ranks/3.log", kOutOfMemory);
  site.write(logs + "/ranks/4.log", "\x1b[2Jnothing\n");
  site.write(logs + "/model.bin", std::string(100, '\0'));
  const auto page = site.stoker({"diagnose", logs});
  CHECK(page.code == 0);
  CHECK(page.out.starts_with("CAUSE     cuda_oom  the run failed\n"));
  CHECK(page.out.find("ranks/3.log:1\n") != std::string::npos);
  CHECK(page.out.find("ranks 3\n") != std::string::npos);
  CHECK(page.out.find("slurm_task_exit") != std::string::npos);
  CHECK(page.out.find("          stoker resume RUN --reason 'cuda_oom', once that is done\n") !=
        std::string::npos);
  CHECK(page.out.find("READ      2 files, 3 lines") != std::string::npos);
  CHECK(page.out.find('\x1b') == std::string::npos);
  CHECK(site.stoker({"diagnose", logs + "/ranks/*.log"}).out.starts_with("CAUSE     cuda_oom"));
}

TEST_CASE("diagnose: a line with a command for a host -> no command to paste names it") {
  const Site site;
  const std::string log = site.folder() + "/log.txt";
  const auto exclude_of = [&](const std::string& host) {
    site.write(log,
               "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
               "train.py FAILED\nRoot Cause (first observed failure):\n[0]:\n"
               "  time      : 2026-01-01_00:00:00\n  host      : " +
                   host + "\n  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 1234)\n");
    const std::string page = site.stoker({"diagnose", log}).out;
    const auto at = page.find("stoker exclude ");
    return at == std::string::npos ? "" : page.substr(at, page.find('\n', at) - at);
  };
  CHECK(exclude_of("n07.cluster").find("stoker exclude n07.cluster --for") == 0);
  for (const char* host : {"$(touch${IFS}/tmp/x)", "n07;id", "--all", "`id`", "n07\xe2\x80\xae"})
    CHECK(exclude_of(host) == "");
}

TEST_CASE("diagnose --json: the keys of the contract") {
  const Site site;
  site.write(site.folder() + "/main.log", kOutOfMemory);
  const auto said = site.stoker({"diagnose", "--json", site.folder() + "/main.log"});
  CHECK(said.code == 0);
  const auto json = parse_json(said.out, "out");
  REQUIRE(json);
  CHECK(json->at("class") == "cuda_oom");
  CHECK(json->at("fatal") == true);
  CHECK(json->at("confidence").get<double>() > 0.8);
  CHECK(json->at("root").at("line") == 1);
  CHECK(json->at("root").at("rank") == 3);
  CHECK(json->at("root").at("node") == "n04");
  CHECK(json->at("root").at("gpu_pci").is_null());
  CHECK(json->at("also").at(0).at("class") == "slurm_task_exit");
  CHECK(json->at("nodes") == Json::array({"n04"}));
  CHECK(json->at("ranks") == Json::array({3}));
  CHECK(json->at("advice").at("action") == "hold");
  CHECK(json->at("advice").at("node_action") == "none");
  CHECK(json->at("advice").at("exclude") == Json::array());
}

TEST_CASE("diagnose: a kernel line that came again -> how often, from when to when") {
  const Site site;
  site.write(site.folder() + "/dmesg.log",
             "[Fri Aug 30 11:43:14 2024] NVRM: Xid (PCI:0000:cb:00): 48, pid=1\n"
             "[Fri Aug 30 11:43:24 2024] NVRM: Xid (PCI:0000:cb:00): 48, pid=1\n");
  const auto page = site.stoker({"diagnose", site.folder() + "/dmesg.log"});
  CHECK(page.out.find("this line came 2 times, from 2024-08-30T11:43:14Z to "
                      "2024-08-30T11:43:24Z\n") != std::string::npos);
  CHECK(page.out.find("          stoker restart RUN --reason 'xid'\n") != std::string::npos);
}

TEST_CASE("diagnose: what is missing or no file -> one line each, the rest diagnosed, exit 1") {
  const Site site;
  site.write(site.folder() + "/main.log", kOutOfMemory);
  REQUIRE(::mkfifo((site.folder() + "/fifo").c_str(), 0600) == 0);
  const auto said = site.stoker(
      {"diagnose", site.folder() + "/fifo", site.folder() + "/gone", site.folder() + "/main.log"});
  CHECK(said.code == 1);
  CHECK(said.out.starts_with("CAUSE     cuda_oom"));
  CHECK(said.err.find("fifo: is no regular file") != std::string::npos);
  CHECK(said.err.find("gone: no such file") != std::string::npos);
  CHECK(site.stoker({"diagnose", site.folder() + "/gone"}).out.empty());
  CHECK(site.stoker({"diagnose"}).code == 2);
}

TEST_CASE("diagnose --signatures: a site's own -> found; a mistake in it -> its line, exit 2") {
  const Site site;
  site.write(site.folder() + "/main.log", "wekafs: backend gone\n");
  const std::string file = site.folder() + "/site.yaml";
  const std::string entry =
      "family: site\nsignatures:\n  - name: weka\n    class: fs_stale\n    pattern: 'wekafs: "
      ".*gone'\n"
      "    source: https://site\n    example: 'wekafs: gone'\n    counter_example: b\n";
  site.write(file, entry);
  const auto said = site.stoker({"diagnose", site.folder() + "/main.log", "--signatures", file});
  CHECK(said.out.starts_with("CAUSE     fs_stale"));
  site.write(file, entry + "    wieght: 3\n");
  const auto wrong = site.stoker({"diagnose", site.folder() + "/main.log", "--signatures", file});
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("site.yaml:9:5: error:") != std::string::npos);
}
