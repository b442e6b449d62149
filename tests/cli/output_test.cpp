// What the commands print, side by side: one story (tests/cli/output/story.txt, in the words of
// tests/golden) is lived by the engine, published, and read by each command. STOKER_REWRITE=1
// renews the files; the diff is then reviewed like code.
#include <fmt/format.h>
#include <re2/re2.h>

#include "cli/doctor/site_checks.hpp"
#include "story.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

namespace {

// Without what depends on the hour and the folder of the test.
std::string steady(const Site& site, std::string text) {
  for (std::size_t at; (at = text.find(site.folder())) != std::string::npos;)
    text.replace(at, site.folder().size(), "/site");
  RE2::GlobalReplace(&text, R"(\([^()]* ago\))", "(SOME TIME ago)");
  RE2::GlobalReplace(&text, "state [^()]* ago", "state SOME TIME ago");
  RE2::GlobalReplace(&text, ", [0-9a-z. ]+ old", ", SOME TIME old");
  RE2::GlobalReplace(&text, ", at 20[0-9T:-]+Z", ", at SOME MOMENT");
  RE2::GlobalReplace(&text, R"(\[20[0-9: -]+\])", "[TODAY]");
  return text;
}

void check_output(const Site& site, const std::string& name, const std::string& text) {
  const std::string path = kOutput + name + ".txt";
  if (std::getenv("STOKER_REWRITE") != nullptr) site.write(path, text);
  CHECK_MESSAGE(os::read_file(path).value_or("(the file is missing)") == text, path);
}

os::CommandOutput answered(int code, const std::string& out, const std::string& err) {
  os::CommandOutput output;
  output.status.code = code;
  output.out = out;
  output.err = err;
  return output;
}

// What `scontrol show config` said on 2026-11-22 at 07:20:02, and that moment here.
constexpr const char* kSlurmConfig =
    "Configuration data as of 2026-11-22T07:20:02\n"
    "AccountingStorageType   = accounting_storage/none\n"
    "ClusterName             = jean\n"
    "MaxArraySize            = 1001\n"
    "MaxJobCount             = 10\n"
    "MinJobAge               = 60 sec\n"
    "PrivateData             = jobs,nodes\n"
    "SLURM_VERSION           = 22.05.8\n";

std::int64_t slurm_moment() {
  std::tm time{};
  time.tm_year = 126;
  time.tm_mon = 10;
  time.tm_mday = 22;
  time.tm_hour = 7;
  time.tm_min = 20;
  time.tm_isdst = -1;
  return ::mktime(&time);
}

}  // namespace

TEST_CASE("output: plan and diagnose of fixed files -> the text that was reviewed") {
  const Site site;
  const std::string example = STOKER_SOURCE_DIR "/configs/examples/tr11/";
  site.write(site.folder() + "/run.yaml", site.read(example + "run.yaml") + "  agent: /bin/true\n");
  site.write(site.folder() + "/train.yaml", site.read(example + "train.yaml"));
  const Said plan =
      site.stoker({"plan", site.folder() + "/run.yaml", "--nodes", "48", "--iteration-time", "105s",
                   "--done", "12695", "--mtbf", "36h", "--save-cost", "40s"});
  check_output(site, "plan", steady(site, plan.err + plan.out));

  const std::string logs = kOutput + "logs";
  std::string page = site.stoker({"diagnose", logs}).out;
  for (std::size_t at; (at = page.find(logs)) != std::string::npos;)
    page.replace(at, logs.size(), "logs");
  check_output(site, "diagnose", page);
}

TEST_CASE("output: doctor's findings of fixed answers -> the text that was reviewed") {
  const Site site;
  std::vector<Finding> findings;
  const auto add = [&](std::vector<Finding> more) {
    for (Finding& finding : more) findings.push_back(std::move(finding));
  };
  add({check_sqlite("3.40.1"), check_sqlite("3.51.3")});
  add(judge_slurm_config(kSlurmConfig, slurm_moment()));
  add(judge_slurm_config("MaxArraySize = 1\n", slurm_moment()));
  add(judge_slurm_config(kSlurmConfig, slurm_moment() + 300));
  add({judge_keeper(true, std::nullopt, "/opt/stoker/bin/stokerd"),
       judge_keeper(false, answered(1, "", "no crontab for alice\n"), "/opt/stoker/bin/stokerd"),
       judge_keeper(false,
                    answered(1, "", "You (alice) are not allowed to use this program (crontab)\n"),
                    "/opt/stoker/bin/stokerd"),
       judge_keeper(false, std::nullopt, "/opt/stoker/bin/stokerd")});
  add({judge_absence({}, "stokerd &"), judge_absence({"tr11", "hello"}, "stokerd &")});
  add({judge_test_only(
           answered(0, "", "sbatch: Job 12 to start at 2026-05-01T05:00:00 a using 8\n")),
       judge_test_only(answered(1, "",
                                "allocation failure: Invalid account or account/partition "
                                "combination specified\n"))});
  const Console plain([](std::string_view) {}, [](std::string_view) {});
  check_output(site, "doctor", finding_text(plain, findings));
}

TEST_CASE("output: one story -> what each command prints, as it was reviewed") {
  const Site site;
  publish_story(site, kOutput + "story.txt");
  const std::map<std::string, std::vector<std::string>> outputs{
      {"status", {"status", "demo"}},
      {"why", {"why", "demo", "--last", "6"}},
      {"events", {"events", "demo", "--last", "12"}},
      {"alerts", {"alerts"}},
      {"nodes", {"nodes"}},
      {"node_report", {"nodes", "--report", "n03"}},
      {"pulse", {"pulse", "demo"}},
      {"chronicle", {"chronicle", "demo"}}};
  for (const auto& [name, arguments] : outputs) {
    const Said said = site.stoker(arguments);
    check_output(site, name, steady(site, said.err + said.out));
  }
}
