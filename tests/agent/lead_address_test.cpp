// lead.json says which lead a follower obeys: only our own user's file counts.
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/own_files.hpp"
#include "tests/folder.hpp"
#include "worker/agent/link/star.hpp"

using namespace stoker;
using namespace stoker::agent;

namespace {

constexpr Generation kGeneration(7);

struct RunFolder : testing::Folder {
  std::string agents = path + "/gen-000007/agents", file = agents + "/lead.json";
  RunFolder() {
    REQUIRE(os::make_directories(agents));
    const LeadAddress address{1, NodeName("n01"), "127.0.0.1", 4711, "secret"};
    REQUIRE(os::replace_file(file, to_json_text(address), os::Durability::Cached, 0600));
  }
  [[nodiscard]] std::string refusal() const {
    const auto read = read_lead_address(path, kGeneration);
    return !read && os::is_refusal(read.error()) ? read.error().message() : "";
  }
};

}  // namespace

TEST_CASE("lead.json: our own -> where the lead listens; a missing one is no refusal") {
  const RunFolder run;
  const auto lead = read_lead_address(run.path, kGeneration);
  REQUIRE(lead);
  CHECK(lead->port == 4711);
  CHECK(lead->secret == "secret");
  CHECK_FALSE(read_lead_address(run.path, Generation(8)));
  std::filesystem::remove(run.file);
  CHECK_FALSE(read_lead_address(run.path, kGeneration));
  CHECK(run.refusal().empty());
}

TEST_CASE("lead.json: others may write it or its folder, or it is a link -> refused by name") {
  const RunFolder run;
  REQUIRE(::chmod(run.file.c_str(), 0660) == 0);
  CHECK(run.refusal().find("gen-000007/agents/lead.json: refused: others may write it") ==
        run.path.size() + 1);
  REQUIRE(::chmod(run.file.c_str(), 0600) == 0);
  REQUIRE(::chmod(run.agents.c_str(), 0777) == 0);
  CHECK(run.refusal().find("others may write it") != std::string::npos);
  REQUIRE(::chmod(run.agents.c_str(), 0755) == 0);
  CHECK(run.refusal().empty());
  std::filesystem::rename(run.file, run / "elsewhere");
  std::filesystem::create_symlink(run / "elsewhere", run.file);
  CHECK(run.refusal().find("symbolic link") != std::string::npos);
}

TEST_CASE("lead.json: of another user -> refused by name") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: a file of another user needs root");
    return;
  }
  const RunFolder run;
  REQUIRE(::chown(run.file.c_str(), 54321, 0) == 0);
  CHECK(run.refusal().find("it belongs to uid 54321, not to root") != std::string::npos);
}
