// Who else may change what a run executes: said by run, check, adopt and doctor.
#include "cli/read/writers.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "tests/folder.hpp"
#include "writers_site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

TEST_CASE("writers: a batch script that others can write -> adopt, check, run, doctor name them") {
  const Site site;
  const std::string script = put(site, "job.slurm", kBatch);
  const std::string run = script_run(site, script);
  const std::vector<std::vector<std::string>> calls{
      {"adopt", script}, {"check", run}, {"run", run, "--dry-run"}, {"doctor", run}};
  const auto all_say = [&](const std::string& what, bool expected) {
    for (const auto& call : calls) {
      const Said said = site.stoker(call, {{"PATH", "/none"}});
      CAPTURE(call.front());
      CAPTURE(said.err);
      CAPTURE(said.out);
      CHECK(says(said.err + said.out, what) == expected);
    }
  };
  all_say("decides what is executed as you", false);
  REQUIRE(::chmod(script.c_str(), 0777) == 0);
  all_say(script + ": everybody can write it, and so decides what is executed as you", true);
  REQUIRE(::chmod(script.c_str(), 0755) == 0);
  REQUIRE(::chmod((site.folder() + "/team").c_str(), 0777) == 0);
  all_say("/team: everybody can put another file in the place of job.slurm", true);
  REQUIRE(::chmod((site.folder() + "/team").c_str(), 0755) == 0);
  if (::geteuid() != 0) {
    MESSAGE("skipped: to make files of other users needs root");
    return;
  }
  REQUIRE(::chown(script.c_str(), 54321, 54321) == 0);
  all_say(script + ": uid 54321 can write it", true);
  all_say("use a copy that only you can write", true);
}

TEST_CASE("writers: setup and the scripts of train.command too, by any path that names them") {
  const Site site;
  const std::string setup = put(site, "env.sh", "export A=1\n");
  const std::string script = put(site, "train.py", "pass\n");
  const std::string launcher = put(site, "launch", "#!/bin/sh\nexec \"$@\"\n");
  const std::string data = put(site, "data.json", "{}\n");
  site.write(site.directory() + "/own.py", "pass\n");
  const std::string run = command_run(
      site, launcher + ", /usr/bin/python3, " + script + ", --data, " + data + ", own.py", setup);
  CHECK(site.stoker({"check", run}).err.empty());
  for (const std::string& path : {setup, script, launcher, data, site.directory() + "/own.py"}) {
    REQUIRE(::chmod(path.c_str(), 0777) == 0);
    CAPTURE(path);
    for (const auto& call : {std::vector<std::string>{"check", run}, {"run", run, "--dry-run"}}) {
      const Said said = site.stoker(call);
      CAPTURE(said.err);
      CHECK(said.code == kDone);
      CHECK(says(said.err, path + ": everybody can write it") == (path != data));
    }
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
  }
  // A link counts as what it leads to, and the folder of each is judged.
  std::filesystem::create_symlink(script, site.directory() + "/link.py");
  REQUIRE(::chmod((site.folder() + "/team").c_str(), 0777) == 0);
  const std::string linked = command_run(site, "/usr/bin/python3, link.py", setup);
  CHECK(says(site.stoker({"check", linked}).err,
             "/team: everybody can put another file in the "
             "place of train.py"));
}

TEST_CASE("writers: the agent, and the scripts of what follows a checkpoint") {
  const Site site;
  const std::string agent = put(site, "stoker-agent",
                                "\x7f"
                                "ELF"),
                    judge = put(site, "judge.py", "pass\n");
  const std::string run = command_run(site, "/bin/true", put(site, "env.sh", ""));
  std::string text = os::read_file(run, 1 << 16).value();
  text.insert(text.find("train: {") + 8, "agent: " + agent + ", ");
  text += "after: [{name: judge, every: 10, command: [/usr/bin/python3, " + judge + "]}]\n";
  site.write(run, text);
  CHECK(site.stoker({"check", run}).err.empty());
  for (const std::string& path : {agent, judge}) {
    REQUIRE(::chmod(path.c_str(), 0777) == 0);
    const Said said = site.stoker({"check", run});
    CAPTURE(said.err);
    CHECK(says(said.err, path + ": everybody can write it"));
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
  }
}

TEST_CASE("writers: RUN.yaml itself, by check and doctor as by run") {
  const Site site;
  const std::string run = command_run(site, "/bin/true", put(site, "env.sh", ""));
  REQUIRE(::chmod(run.c_str(), 0646) == 0);
  for (const auto& call :
       {std::vector<std::string>{"check", run}, {"run", run, "--dry-run"}, {"doctor", run}}) {
    const Said said = site.stoker(call, {{"PATH", "/none"}});
    CHECK(says(said.err + said.out, run + ": everybody can write it"));
    // It could name a server, and the file of a secret that this is sent.
    CHECK(says(said.out, "not asked whether it would take this run") == (call[0] == "doctor"));
  }
}

TEST_CASE("writers: files and folders from which programs load code, named by an environment") {
  const Site site;
  const std::string file = put(site, "x.so", ""), team = site.folder() + "/team";
  const std::string run = command_run(site, "/bin/true", put(site, "env.sh", ""));
  const std::string text = os::read_file(run, 1 << 16).value();
  const auto with = [&](const std::string& variable, const std::string& value) {
    std::string more = text;
    more.insert(more.find("train: {") + 8, "environment: {" + variable + ": \"" + value + "\"}, ");
    site.write(run, more);
  };
  const auto said = [&](const std::string& what) {
    bool everywhere = true;
    for (const auto& call :
         {std::vector<std::string>{"check", run}, {"run", run, "--dry-run"}, {"doctor", run}}) {
      const Said answer = site.stoker(call);
      CAPTURE(answer.err);
      everywhere = everywhere && says(answer.err + answer.out, what);
    }
    return everywhere;
  };
  const std::string decides = "decides what is executed as you";
  for (const char* variable : {"LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV", "PYTHONSTARTUP"}) {
    CAPTURE(variable);
    with(variable, file);
    CHECK_FALSE(says(site.stoker({"check", run}).err, decides));
    REQUIRE(::chmod(file.c_str(), 0666) == 0);
    CHECK(said(file + ": everybody can write it, and so " + decides + " (" + variable +
               " in train.environment)"));
    REQUIRE(::chmod(file.c_str(), 0644) == 0);
  }
  for (const char* variable : {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME"}) {
    CAPTURE(variable);
    with(variable, "/usr/bin:" + team + ":/bin");
    CHECK_FALSE(says(site.stoker({"check", run}).err, decides));
    for (const mode_t mode : {0777, 01777}) {  // a sticky folder takes new names from all
      REQUIRE(::chmod(team.c_str(), mode) == 0);
      CHECK(said(team + ": everybody can put files there, and so " + decides + " (" + variable));
    }
    REQUIRE(::chmod(team.c_str(), 0755) == 0);
  }
  with("PATH", "/usr/bin:" + team + "/bin/x64:/none/of/these");
  CHECK_FALSE(says(site.stoker({"check", run}).err, decides));
  REQUIRE(::chmod(team.c_str(), 01777) == 0);
  CHECK(said(team + "/bin is not there: everybody can make it, and so " + decides));
  with("DATA", team);
  CHECK_FALSE(says(site.stoker({"check", run}).err, decides));
  with("LD_PRELOAD", "libm.so.6 " + file);  // a name alone is looked for in the system's folders
  REQUIRE(::chmod(team.c_str(), 0755) == 0);
  CHECK_FALSE(says(site.stoker({"check", run}).err, decides));
  REQUIRE(::chmod(file.c_str(), 0666) == 0);
  CHECK(said(file + ": everybody can write it"));
  std::string followed = text +
                         "after: [{name: judge, every: 10, command: [/bin/true], "
                         "environment: {PYTHONSTARTUP: " +
                         file + "}}]\n";
  site.write(run, followed);
  CHECK(said(file + ": everybody can write it, and so " + decides +
             " (PYTHONSTARTUP in environment of after)"));
}

TEST_CASE("writers: a folder further up that others write -> named, sticky ones are not") {
  const Site site;
  const std::string code = site.folder() + "/team/mine/code";
  std::filesystem::create_directories(code);
  site.write(code + "/train.py", "pass\n");
  for (const std::string& path : {site.folder() + "/team", site.folder() + "/team/mine", code})
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
  REQUIRE(::chmod((code + "/train.py").c_str(), 0644) == 0);
  const std::string run =
      command_run(site, "/usr/bin/python3, " + code + "/train.py", put(site, "env.sh", ""));
  CHECK(site.stoker({"check", run}).err.empty());
  REQUIRE(::chmod((site.folder() + "/team").c_str(), 0777) == 0);
  for (const auto& call :
       {std::vector<std::string>{"check", run}, {"run", run, "--dry-run"}, {"doctor", run}}) {
    const Said said = site.stoker(call, {{"PATH", "/none"}});
    CHECK(says(said.err + said.out,
               "/team: everybody can put another folder in the place of mine, "
               "and so decides what is executed as you"));
  }
  REQUIRE(::chmod((site.folder() + "/team").c_str(), 01777) == 0);
  CHECK(site.stoker({"check", run}).err.empty());
}

TEST_CASE("writers: a script whose owner holds open(2) by a lease -> named at once") {
  const Site site;
  const std::string script = put(site, "job", "#!/bin/sh\n");
  const std::string run = command_run(site, "/bin/sh, " + script, put(site, "env.sh", ""));
  REQUIRE(::chmod(script.c_str(), 0777) == 0);
  const auto said = [&] { return site.stoker({"check", run}).err; };
  CHECK(says(said(), script + ": everybody can write it"));
  const auto before = std::signal(SIGIO, SIG_IGN);  // the kernel's request to give the lease up
  const os::Fd file(::open(script.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(file);
  if (::fcntl(file.get(), F_SETLEASE, F_WRLCK) != 0) {
    std::signal(SIGIO, before);
    std::puts("SKIPPED: the file system has no leases; needs root or a local disk");
    return;
  }
  const auto start = std::chrono::steady_clock::now();
  CHECK(says(said(), script + ": everybody can write it"));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));  // 45 is the kernel's
  std::signal(SIGIO, before);
}

TEST_CASE("writers: a FIFO and a folder where a script was named -> no script, nothing waits") {
  const Site site;
  const std::string script = put(site, "job", "#!/bin/sh\n");
  const std::string run = command_run(site, "/bin/sh, " + script, put(site, "env.sh", ""));
  REQUIRE(::chmod(script.c_str(), 0777) == 0);
  const auto files = [&] {
    core::RunPolicy policy;
    policy.directory = site.directory();
    policy.train.command = {"/bin/sh", script};
    return files_executed(run, policy).size();
  };
  const std::size_t with_script = files();
  REQUIRE(::unlink(script.c_str()) == 0);
  REQUIRE(::mkfifo(script.c_str(), 0777) == 0);
  CHECK(files() == with_script - 1);
  REQUIRE(::unlink(script.c_str()) == 0);
  REQUIRE(::mkdir(script.c_str(), 0755) == 0);
  CHECK(files() == with_script - 1);
}

TEST_CASE(
    "check: checkpoints in a folder of root that all may write -> named; in one of ours not") {
  if (::geteuid() != 0) return;  // to make it another user's
  testing::Folder folder;
  core::RunPolicy policy;
  policy.directory = folder.path;
  policy.checkpoints.directory = folder / "scratch";
  CHECK_FALSE(taker_of_checkpoint_names(policy));
  REQUIRE(::mkdir((folder / "scratch").c_str(), 0755) == 0);
  REQUIRE(::chmod((folder / "scratch").c_str(), 01777) == 0);
  CHECK_FALSE(taker_of_checkpoint_names(policy));
  REQUIRE(::chown((folder / "scratch").c_str(), 54321, 54321) == 0);
  const auto taker = taker_of_checkpoint_names(policy);
  REQUIRE(taker);
  CHECK(taker->found.find("it is uid 54321's") != std::string::npos);
}

namespace {

// What `stoker check` reports about a run of SLURM with this in its train section, and these
// sections.
std::string words_of_check(const Site& site, const std::string& train, const std::string& more) {
  const std::string path = site.folder() + "/named.yaml";
  site.write(path, "run: hello\ndirectory: " + site.directory() +
                       "\nscheduler: {kind: slurm, nodes: 1, time_limit: 1h}\ntrain: {command: "
                       "[python3], ranks_per_node: 1" +
                       train + "}\n" + more);
  return site.stoker({"check", path}, {{"PATH", "/none"}}).err;
}

}  // namespace

TEST_CASE("writers: train.finished.file in a folder of others -> check names the folder") {
  const Site site;
  const std::string folder = site.folder() + "/team";
  REQUIRE(os::make_directories(folder));
  const auto check = [&](const std::string& file) {
    return words_of_check(site, ", finished: {file: " + file + "}", "");
  };
  const std::string words = "(train.finished.file): everybody can put files into " + folder +
                            ", also another file of yours under this name, which ends the run; "
                            "keep it in a folder where only you can write";
  CHECK_FALSE(says(check(folder + "/DONE"), "train.finished.file"));
  REQUIRE(::chmod(folder.c_str(), 01777) == 0);
  CHECK(says(check(folder + "/DONE"), words));
  CHECK_FALSE(says(check("DONE"), "train.finished.file"));
}

TEST_CASE("writers: a pattern of watch.logs in a folder of others -> check names the folder") {
  const Site site;
  const std::string folder = site.folder() + "/logs";
  REQUIRE(os::make_directories(folder));
  const auto check = [&](const std::string& logs) {
    return words_of_check(site, "", "watch: {logs: [\"" + logs + "\"]}\n");
  };
  const std::string words = "(watch.logs): everybody can put files into " + folder +
                            ", which then count as logs of this training; keep the logs in a "
                            "folder where only you can write";
  CHECK_FALSE(says(check(folder + "/*.log"), "watch.logs"));
  REQUIRE(::chmod(folder.c_str(), 01777) == 0);
  CHECK(says(check(folder + "/*.log"), words));
  CHECK_FALSE(says(check(folder + "/out.log"), "watch.logs"));
}
