// `-o FILE` of each command that has it: a person's link stays one, a directory is no file.
#include "site.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

TEST_CASE("output options: a link of ours -> what it leads to is written; a directory -> refused") {
  const Site site;
  site.publish(training_status());
  site.publish_events({});
  const std::string log = site.folder() + "/log", script = site.folder() + "/job.slurm";
  site.write(log, "step 1 loss: 2\n");
  site.write(script,
             "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=1:00:00\n#SBATCH -o /tmp/x-%j.log\n"
             "python3 train.py\n");
  const std::vector<std::vector<std::string>> commands{
      {"report", "hello", "-o"},          {"diagnose", log, "--html"},
      {"support", "hello", "-o"},         {"init", script, "--scheduler", "slurm", "--force", "-o"},
      {"adopt", script, "--force", "-o"}, {"metrics", "-o"}};
  for (std::vector<std::string> command : commands) {
    CAPTURE(command.front());
    const std::string target = site.folder() + "/target", link = site.folder() + "/link";
    site.write(target, "");
    std::filesystem::create_symlink("target", link);
    command.push_back(link);
    const Said said = site.stoker(command, {{"PATH", "/none"}});
    CAPTURE(said.err);
    CHECK(std::filesystem::is_symlink(link));
    CHECK(std::filesystem::file_size(target) > 0);
    command.back() = site.folder() + "/folder";
    std::filesystem::create_directory(command.back());
    const Said refused = site.stoker(command, {{"PATH", "/none"}});
    CAPTURE(refused.err);
    CHECK(refused.code != 0);
    CHECK(refused.err.find("it is a directory; nothing is written") != std::string::npos);
    for (const std::string& path : {target, link, command.back()}) std::filesystem::remove(path);
  }
}
