// Saving into a folder where others write too: what they put there leads nothing of ours elsewhere.
#include <doctest/doctest.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/permissions.hpp"
#include "tests/folder.hpp"
#include "watch/checkpoint_scan.hpp"
#include "worker/train/checkpoint/save.hpp"
#include "worker/train/comm/self_comm.hpp"
#include "worker/train/data/samples_log.hpp"

using namespace stoker;
using namespace stoker::train;
using stoker::testing::Folder;

namespace fs = std::filesystem;

namespace {

constexpr const char* kName = "step-000007.g000000";
constexpr uid_t kStranger = 54321;

recipe::ModelConfig tiny_model() {
  recipe::ModelConfig m;
  m.layers = 1, m.hidden = 8, m.heads = 2, m.ffn = 8, m.sequence = 4, m.vocabulary = 20;
  return m;
}

SaveReport save_into(const std::string& directory) {
  SelfComm comm;
  SaveRequest request;
  request.directory = directory;
  request.layout = {tiny_model(), comm.mesh(), {0}};
  request.manifest.iteration = Iteration(7);
  request.manifest.training = Json::object();
  request.attempt = Attempt(1);
  request.deadline = 60s;
  auto state = FlatState::allocate(request.layout.of_rank(0), recipe::Dtype::F32).value();
  state.initialise(1);
  auto save = PendingSave::begin(comm, state, request, nullptr);
  REQUIRE(save.has_value());
  return (*save)->finish(comm).value();
}

struct Store : Folder {
  Store() {
    write("precious", "mine");
    fs::create_directory(directory);
  }
  [[nodiscard]] std::string aside() const { return directory + "/" + kName + ".partial.1"; }
  // What another user prepares; without root there is no other user.
  void give_away(const std::string& at) const {
    if (::geteuid() == 0) REQUIRE(::lchown(at.c_str(), kStranger, kStranger) == 0);
  }
  [[nodiscard]] bool untouched() const {
    return os::read_file(*this / "precious").value_or("") == "mine";
  }

  std::string directory = *this / "checkpoints";
};

bool good(const std::string& directory) {
  return watch::check_own_checkpoint(directory + "/" + kName, watch::Depth::Content).has_value();
}

}  // namespace

TEST_CASE(
    "save: links of another user in a folder aside of its name -> saved, nothing overwritten") {
  const Store store;
  fs::create_directory(store.aside());
  for (const char* name : {"shard-00000-of-00001.bin.tmp", "manifest.json", "manifest.json.new"}) {
    fs::create_symlink(store / "precious", store.aside() + "/" + name);
    store.give_away(store.aside() + "/" + name);
  }
  store.give_away(store.aside());
  const SaveReport report = save_into(store.directory);
  CHECK_MESSAGE(report.saved, report.why);
  CHECK(store.untouched());
  CHECK(good(store.directory));
}

TEST_CASE("save: a link has the name of the folder aside -> saved beside it, nothing behind it") {
  const Store store;
  fs::create_directory(store / "other");
  fs::create_directory_symlink(store / "other", store.aside());
  store.give_away(store.aside());
  const SaveReport report = save_into(store.directory);
  CHECK_MESSAGE(report.saved, report.why);
  CHECK(fs::is_empty(store / "other"));
  CHECK(good(store.directory));
  CHECK(fs::is_symlink(fs::symlink_status(store.aside())));
}

TEST_CASE("save: another user has the final name -> moved aside, saved") {
  for (const char* what : {"link", "folder", "file"}) {
    const Store store;
    const std::string taken = store.directory + "/" + kName;
    if (*what == 'l')
      fs::create_symlink("/nonexistent/x", taken);
    else if (std::string(what) == "folder")
      fs::create_directory(taken);
    else
      REQUIRE(os::replace_file(taken, "x", os::Durability::Cached));
    store.give_away(taken);
    const SaveReport report = save_into(store.directory);
    CHECK_MESSAGE(report.saved, what << ": " << report.why);
    CHECK(good(store.directory));
    CHECK(os::list_directory(store.directory)->size() == 2);
  }
}

TEST_CASE("save: a folder renamed to a leftover's name -> what is no checkpoint's stays in it") {
  const Store store;
  const std::string own = store.aside();
  fs::create_directory(own);
  for (const char* name : {"paper.tex", "shard-00000-of-00001.bin"})
    REQUIRE(os::replace_file(own + "/" + name, "x", os::Durability::Cached));
  const std::string other = store.directory + "/" + kName + ".partial.0";  // of another run
  fs::create_directory(other);
  wire::Manifest manifest;
  manifest.run = "another";
  for (const auto& [name, text] :
       {std::pair<std::string, std::string>{"/manifest.json", to_json_text(manifest)},
        {"/shard-00000-of-00001.bin", "x"}})
    REQUIRE(os::replace_file(other + name, text, os::Durability::Cached));
  CHECK(save_into(store.directory).saved);
  CHECK(os::list_directory(own).value() == std::vector<std::string>{"paper.tex"});
  CHECK(os::list_directory(other)->size() == 2);
}

TEST_CASE("save: a killed one has left its folder aside -> it goes") {
  const Store store;
  for (const std::string& name : {store.aside(), store.aside() + ".0a1b2c3d"}) {
    fs::create_directory(name);
    REQUIRE(os::replace_file(name + "/shard-00000-of-00001.bin.tmp", "x", os::Durability::Cached));
  }
  CHECK(save_into(store.directory).saved);
  CHECK(os::list_directory(store.directory).value() == std::vector<std::string>{kName});
}

TEST_CASE("save: an open umask -> only the owner may write what was made") {
  const Folder folder;
  const std::string directory = folder / "checkpoints";
  {
    const os::UmaskFor open(0);
    CHECK(save_into(directory).saved);
  }
  for (const std::string& at :
       {directory, directory + "/" + kName, directory + "/" + kName + "/manifest.json",
        directory + "/" + kName + "/shard-00000-of-00001.bin"}) {
    struct stat info {};
    REQUIRE(::stat(at.c_str(), &info) == 0);
    CHECK_MESSAGE((info.st_mode & (S_IWGRP | S_IWOTH)) == 0, at);
  }
}

TEST_CASE("save: another user has the checkpoint's name, with a good copy -> it was not saved") {
  if (::geteuid() != 0) return;  // to make it another user's
  const Store store;
  CHECK(save_into(store.directory).saved);
  for (const char* name : {"", "/manifest.json", "/shard-00000-of-00001.bin"})
    store.give_away(store.directory + "/" + kName + name);
  const SaveReport report = save_into(store.directory);
  CHECK_FALSE(report.already);
  CHECK(report.saved);  // as root it could be moved away
  CHECK(good(store.directory));
}

TEST_CASE("SamplesLog: its name is a link, or another user's file -> refused, nothing appended") {
  const Store store;
  fs::create_symlink(store / "precious", store / "samples.log");
  const auto link = SamplesLog::open(store / "samples.log");
  REQUIRE_FALSE(link.has_value());
  CHECK(link.error().message().find("symbolic link") != std::string::npos);
  CHECK(store.untouched());
  if (::geteuid() != 0) return;  // to make it another user's
  store.give_away(store / "precious");
  CHECK_FALSE(SamplesLog::open(store / "precious").has_value());
  CHECK(store.untouched());
}
