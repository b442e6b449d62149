// What a run executes, by which words, scripts and variables: all of it is named where others can
// write it.
#include "cli/read/executed.hpp"

#include <array>
#include <filesystem>
#include <sys/stat.h>

#include "common/os/files.hpp"
#include "writers_site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

TEST_CASE("writers: what commands and scripts name, in each form -> named; arguments are not") {
  const Site site;
  const std::string team = site.folder() + "/team";
  const std::string setup = put(site, "env.sh", "");
  const std::string own = site.folder() + "/own";
  std::filesystem::create_directories(own);
  REQUIRE(::chmod(own.c_str(), 0755) == 0);
  put(site, "train.py", "pass\n");
  put(site, "start", "echo\n");
  put(site, "elf",
      "\x7f"
      "ELF");
  put(site, "data.json", "{}");
  const auto said = [&](const std::string& command) {
    return site.stoker({"check", command_run(site, command, setup)}).err;
  };
  const std::string start = "team/start: everybody can write it";
  const std::string train = "team/train.py: everybody can write it";
  for (const auto& form : std::vector<std::array<std::string, 3>>{
           {"env, --chdir=" + team + ", python3, train.py", "train.py", train},
           {"srun, -C, gpu, python3, " + team + "/train.py", "train.py", train},
           {"bash, -c, \"export PYTHONPATH=" + team + ":$PYTHONPATH; python3 -m pkg\"", ".",
            "team: everybody can put files there"},
           {"env, -C, " + team + ", python3, -u, train.py", "train.py", train},
           {team + "/elf", "elf", "team/elf: everybody can write it"},
           {"bash, " + team + "/start", "start", start},
           {"env, A=1, bash, " + team + "/start", "start", start},
           {"bash, -c, \"source " + team + "/start\"", "start", start},
           {"bash, -c, \"cd " + team + " && python3 train.py\"", "train.py", train},
           {"torchrun, --nproc_per_node, 8, " + team + "/train.py", "train.py", train},
           {"/usr/bin/python3, launch, --script=" + team + "/train.py", "train.py", train},
           {"bash, -c, \"python3 2>err.log " + team + "/train.py\"", "train.py", train},
           {"bash, -c, \"bash 2>err.log " + team + "/start > out\"", "start", start},
           {"python3, " + team, ".", "team: everybody can put files there"},
           {"env, PYTHONPATH=" + team + ", python3, -m, pkg", ".",
            "team: everybody can put files there"},
           {"bash, -c, \"module use " + team + "; python3 x.py\"", ".", "team: everybody can"},
           {"bash, -c, \"conda activate " + team + "\"", ".", "team: everybody can"},
           {"bash, -c, 'eval \"$(" + team + "/elf shell.bash hook)\"'", "elf",
            "team/elf: everybody"},
           {"srun, --container-image=" + team + "/start, python3, x.py", "start", start},
           {"apptainer, exec, --nv, " + team + ", python3, x.py", ".", "team: everybody can"},
           {"env, --chdir=" + team + ", python3, -m, pkg", ".",
            "team: everybody can put files there"}}) {
    const std::string &command = form[0], path = team + "/" + form[1], &what = form[2];
    CAPTURE(command);
    CHECK(said(command).empty());
    REQUIRE(::chmod(path.c_str(), 0777) == 0);
    const std::string err = said(command);
    CAPTURE(err);
    CHECK(says(err, what));
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
  }
  REQUIRE(::chmod(team.c_str(), 01777) == 0);  // new files beside the script, not in its place
  CHECK(says(said("python3, " + team + "/train.py"),
             "team: everybody can put files there, and so decides what is executed as you (where "
             "Python looks for modules)"));
  REQUIRE(::chmod(team.c_str(), 0755) == 0);
  // What is read or made, and not executed.
  REQUIRE(::chmod((team + "/data.json").c_str(), 0777) == 0);
  std::filesystem::create_directories(team + "/out");
  REQUIRE(::chmod((team + "/out").c_str(), 0777) == 0);
  CHECK(said("bash, -c, \"mkdir -p " + team + "/out; cat " + team + "/data.json; cd " + team +
             "/out\"")
            .empty());
  CHECK(said("torchrun, --log-dir, " + team + "/out, --nnodes, 1, " + team + "/train.py").empty());
  CHECK(said("torchrun, --log-dir=" + team + "/out, " + team + "/train.py").empty());
  CHECK(said("srun, -C, gpu, cp, -r, " + team + "/out, " + team + "/data.json").empty());
  CHECK(said("bash, -c, \"mpirun prog > " + team + "/data.json; rsync -a . " + team + "/out\"")
            .empty());
  CHECK(said("srun, -o, " + team + "/data.json, python3, " + team + "/train.py").empty());
  CHECK(said("python3, -m, pkg, " + team + "/out, --to, " + team + "/out").empty());
  CHECK(said("python3, " + team + "/train.py, --data, " + team + "/data.json, " + team + "/out")
            .empty());
}

TEST_CASE("writers: what a batch script and its scripts name, and exec sinks") {
  const Site site;
  const std::string train = put(site, "train.py", "pass\n");
  const std::string inner = put(site, "inner.sh", "exec python3 " + train + "\n");
  const std::string modules = put(site, "modules", "export PYTHONPATH=" + site.folder() + "/lib\n");
  const std::string script = put(
      site, "job.slurm", std::string(kBatch) + "source " + modules + "\nsrun bash " + inner + "\n");
  std::filesystem::create_directories(site.folder() + "/lib");
  REQUIRE(::chmod((site.folder() + "/lib").c_str(), 0755) == 0);
  const std::string run = script_run(site, script);
  const std::string notify = put(site, "notify", "#!/bin/sh\n");
  site.write(run, os::read_file(run, 1 << 16).value() +
                      "alerts: {sinks: {pager: {kind: exec, command: [" + notify + "]}}}\n");
  const std::string nothing = site.stoker({"check", run}).err;
  CAPTURE(nothing);
  CHECK_FALSE(says(nothing, "decides what is executed"));
  for (const std::string& path : {train, inner, modules, notify}) {
    REQUIRE(::chmod(path.c_str(), 0777) == 0);
    const Said said = site.stoker({"check", run});
    CAPTURE(path);
    CAPTURE(said.err);
    CHECK(says(said.err, path + ": everybody can write it"));
    REQUIRE(::chmod(path.c_str(), 0755) == 0);
  }
  REQUIRE(::chmod((site.folder() + "/lib").c_str(), 0777) == 0);
  CHECK(says(site.stoker({"check", run}).err,
             "/lib: everybody can put files there, and so decides what is executed as you "
             "(PYTHONPATH in " +
                 modules + ")"));
}
