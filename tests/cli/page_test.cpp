// stoker metrics and stoker web while the daemon is away.
#include <sys/stat.h>

#include "site.hpp"
#include "wire/health.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;

TEST_CASE("metrics: what was last published -> the text, and stoker_up 0 without a daemon") {
  const Site site;
  wire::StatusDocument status;
  status.run = "hello";
  status.state = "training";
  status.iteration = 42;
  site.publish(status);
  wire::DaemonHealth health;
  health.build = "stoker 9";
  health.journal_rows = 77;
  site.write(site.state() + "/published/health.json", to_json_text(health));
  const auto said = site.stoker({"metrics"});
  CHECK(said.code == 0);
  CHECK(said.out.find("\nstoker_up 0\n") != std::string::npos);
  CHECK(said.out.find("stoker_run_iteration{run=\"hello\"} 42\n") != std::string::npos);
  CHECK(said.out.find("stoker_journal_rows_total 77\n") != std::string::npos);
  CHECK(said.err.find("no daemon is running") != std::string::npos);
  CHECK(site.stoker({"metrics", "--openmetrics"}).out.ends_with("# EOF\n"));
}

TEST_CASE("metrics -o: a whole file that others can read") {
  const Site site;
  const std::string path = site.folder() + "/stoker.prom";
  CHECK(site.stoker({"metrics", "-o", path}).out.empty());
  CHECK(site.read(path).starts_with("# HELP stoker_up"));
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0444) == 0444);
  CHECK(site.stoker({"metrics", "-o", site.folder() + "/nosuch/stoker.prom"}).code == 1);
}

TEST_CASE("metrics: a torn or hostile health document -> the rest is printed") {
  const Site site;
  site.write(site.state() + "/published/health.json", "{\"journal_rows\": \"many");
  const auto said = site.stoker({"metrics"});
  CHECK(said.code == 0);
  CHECK(said.out.find("stoker_journal_rows_total 0\n") != std::string::npos);
}

TEST_CASE("web: no daemon -> one line with the command that starts one") {
  const Site site;
  const auto said = site.stoker({"web"});
  CHECK(said.code == 1);
  CHECK(said.out.empty());
  CHECK(said.err.find("start it with: stokerd") != std::string::npos);
}
