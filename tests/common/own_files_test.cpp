// Files that only our own user can have written: other owners, write permission and links refused.
#include "common/os/own_files.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <endian.h>
#include <filesystem>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/permissions.hpp"
#include "tests/folder.hpp"

using namespace stoker;

namespace fs = std::filesystem;
using stoker::testing::Folder;

namespace {

struct RunFolder : Folder {
  RunFolder() {
    REQUIRE(os::make_directories(*this / "orders", 0755));
    REQUIRE(os::replace_file(*this / "orders/1.json", "one", os::Durability::Cached, 0600));
  }
  [[nodiscard]] Result<std::string> order() const {
    return os::read_own_file(path, "orders/1.json", 100);
  }
  [[nodiscard]] bool refused(const std::string& why) const {
    const auto text = order();
    return !text && os::is_refusal(text.error()) &&
           text.error().message().find(why) != std::string::npos;
  }
};

// Of entries without a user or group of their own. False: the file system has no ACLs.
bool set_default_acl(const std::string& path,
                     std::initializer_list<std::pair<std::uint16_t, std::uint16_t>> entries) {
  std::string acl(sizeof(posix_acl_xattr_header), '\0');
  const posix_acl_xattr_header header{htole32(POSIX_ACL_XATTR_VERSION)};
  std::memcpy(acl.data(), &header, sizeof header);
  for (const auto& [tag, permissions] : entries) {
    const posix_acl_xattr_entry entry{htole16(tag), htole16(permissions),
                                      htole32(static_cast<std::uint32_t>(ACL_UNDEFINED_ID))};
    acl.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  return ::setxattr(path.c_str(), "system.posix_acl_default", acl.data(), acl.size(), 0) == 0;
}

}  // namespace

TEST_CASE("own files: a file of ours in folders of ours -> read; none -> missing, not refused") {
  const RunFolder run;
  CHECK(run.order().value_or("") == "one");
  const auto none = os::read_own_file(run.path, "orders/2.json", 100);
  REQUIRE_FALSE(none);
  CHECK_FALSE(os::is_refusal(none.error()));
  CHECK_FALSE(os::read_own_file(run.path, "orders/1.json", 2));  // too large
}

TEST_CASE("own files: others may write the file, its folder or the base -> refused, with chmod") {
  const RunFolder run;
  for (const char* name : {"", "/orders", "/orders/1.json"}) {
    const std::string path = run.path + name;
    struct stat before {};
    REQUIRE(::stat(path.c_str(), &before) == 0);
    for (const mode_t bit : {S_IWGRP, S_IWOTH}) {
      REQUIRE(::chmod(path.c_str(), (before.st_mode & 07777) | bit) == 0);
      CHECK_MESSAGE(run.refused("chmod go-w " + path), path);
    }
    REQUIRE(::chmod(path.c_str(), before.st_mode & 07777) == 0);
  }
  CHECK(run.order().has_value());
}

TEST_CASE(
    "own files: a link in the place of the file or its folder -> refused; of the base -> not") {
  const RunFolder run;
  const Folder other;
  fs::create_directory_symlink(run.path, other / "run");
  CHECK(os::read_own_file(other / "run", "orders/1.json", 100).has_value());
  fs::rename(run / "orders/1.json", run / "real.json");
  fs::create_symlink(run / "real.json", run / "orders/1.json");
  CHECK(run.refused("symbolic link"));
  fs::rename(run / "orders", other / "orders");
  fs::create_directory_symlink(other / "orders", run / "orders");
  CHECK(run.refused("symbolic link"));
}

TEST_CASE("own files: of another user -> refused by name") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: a file of another user needs root");
    return;
  }
  const RunFolder run;
  REQUIRE(::chown((run / "orders/1.json").c_str(), 54321, 0) == 0);
  CHECK(os::check_own(run / "orders/1.json").error().message().find("uid 54321") !=
        std::string::npos);
  CHECK(run.refused("it belongs to uid 54321, not to root"));
  REQUIRE(::chown((run / "orders/1.json").c_str(), 0, 0) == 0);
  REQUIRE(::chown((run / "orders").c_str(), 54321, 0) == 0);
  CHECK(run.refused("it belongs to uid 54321"));
  const auto closed = os::close_to_others(run / "orders");
  REQUIRE_FALSE(closed);
  CHECK(os::is_refusal(closed.error()));
}

TEST_CASE("own files: close_to_others -> write permission goes, all else stays") {
  const Folder folder;
  REQUIRE(::chmod(folder.path.c_str(), 02770) == 0);
  CHECK(os::close_to_others(folder.path).value_or(false));
  struct stat info {};
  REQUIRE(::stat(folder.path.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 02750);
  CHECK_FALSE(os::close_to_others(folder.path).value_or(true));
  CHECK_FALSE(os::close_to_others(folder / "none").value_or(true));
}

TEST_CASE("own files: a default ACL lets others write what is made -> that goes, reading stays") {
  const Folder folder;
  if (!set_default_acl(folder.path, {{ACL_USER_OBJ, 7}, {ACL_GROUP_OBJ, 5}, {ACL_OTHER, 6}})) {
    MESSAGE("skipped: a file system without ACLs");
    return;
  }
  const auto mode_of_made = [&](const std::string& name) {
    const mode_t before = ::umask(0);
    fs::create_directory(folder / name);
    ::umask(before);
    struct stat info {};
    REQUIRE(::stat((folder / name).c_str(), &info) == 0);
    return info.st_mode & 0777;
  };
  REQUIRE(mode_of_made("before") == 0756);
  CHECK(os::close_to_others(folder.path).value_or(false));
  CHECK(mode_of_made("after") == 0754);
  CHECK_FALSE(os::close_to_others(folder.path).value_or(true));
}

TEST_CASE("permissions: set_folder_mode -> the mode alone decides, also of what is made there") {
  const Folder folder;
  fs::create_directory(folder / "state");
  if (!set_default_acl(folder / "state", {{ACL_USER_OBJ, 7}, {ACL_GROUP_OBJ, 5}, {ACL_OTHER, 5}})) {
    MESSAGE("skipped: a file system without ACLs");
    return;
  }
  REQUIRE(os::set_folder_mode(folder / "state", 0710, "cannot close it"));
  const mode_t before = ::umask(0077);
  folder.write("state/journal.db", "x");
  ::umask(before);
  struct stat info {};
  REQUIRE(::stat((folder / "state/journal.db").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("permissions: a mode is set on the file itself, never through a link to another") {
  const Folder folder;
  const auto mode = [&](const char* name) {
    struct stat info {};
    REQUIRE(::stat((folder / name).c_str(), &info) == 0);
    return info.st_mode & 07777;
  };
  folder.write("mine", "x");
  CHECK(os::set_mode(folder / "mine", 0600, "cannot close it"));
  CHECK(mode("mine") == 0600);
  fs::create_symlink(folder / "mine", folder / "link");
  const Status refused = os::set_mode(folder / "link", 0660, "cannot open it");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message().starts_with(folder / "link" + ": cannot open it: "));
  CHECK(mode("mine") == 0600);
  fs::create_directory(folder / "state");
  fs::create_directory_symlink(folder / "state", folder / "behind");
  CHECK(os::set_folder_mode(folder / "behind", 0710, "cannot open it"));
  CHECK(mode("state") == 0710);
  CHECK_FALSE(os::set_folder_mode(folder / "mine", 0700, "cannot close it"));
  {
    const os::UmaskFor mask(0177);
    fs::create_directory(folder / "private");
    CHECK(mode("private") == 0600);
  }
  fs::create_directory(folder / "usual");
  CHECK(mode("usual") != 0600);
}

TEST_CASE("files: published -> exactly its mode, under any umask") {
  const Folder folder;
  const mode_t before = ::umask(0077);
  REQUIRE(os::publish_file(folder / "a", "x", os::Durability::Cached));
  REQUIRE(os::publish_file(folder / "b", "x", os::Durability::Synced, 0640));
  REQUIRE(os::replace_file(folder / "c", "x", os::Durability::Cached));
  ::umask(before);
  const auto mode = [&](const char* name) {
    struct stat info {};
    REQUIRE(::stat((folder / name).c_str(), &info) == 0);
    return info.st_mode & 0777;
  };
  CHECK(mode("a") == 0644);
  CHECK(mode("b") == 0640);
  CHECK(mode("c") == 0600);
}

TEST_CASE("files: what a killed writer left aside -> swept once it is old; all else stays") {
  const Folder folder;
  for (const char* name : {"control.json.new.4711.0", "claim.1.0.new.17.3.node-1.site",
                           "status.json", "a.new.b.1", "x.new.1", "x.new.1.", ".new.1.2"})
    folder.write(name, "x");
  CHECK(os::sweep_aside_files(folder.path, 1h) == 0);
  CHECK(os::sweep_aside_files(folder.path, 0s) == 2);
  CHECK(os::list_directory(folder.path)->size() == 5);
  CHECK(os::exists(folder / "status.json"));
  CHECK(os::sweep_aside_files(folder / "none", 0s) == 0);
}

TEST_CASE("own files: a folder where others may rename what we make -> refused; sticky is enough") {
  const Folder folder;
  const std::string store = folder / "store";
  fs::create_directory(store);
  const auto keeps = [&store](mode_t mode) {
    REQUIRE(::chmod(store.c_str(), mode) == 0);
    return os::check_keeps_ours(store).has_value();
  };
  CHECK(keeps(0755));
  CHECK_FALSE(keeps(0775));
  CHECK_FALSE(keeps(0757));
  CHECK(keeps(01777));
  CHECK(keeps(03775));
  CHECK_FALSE(os::check_keeps_ours(folder / "none"));
  if (::geteuid() != 0) return;  // to make it another user's
  REQUIRE(::chown(store.c_str(), 65534, 65534) == 0);
  CHECK_FALSE(keeps(0755));
  CHECK_FALSE(keeps(01777));
}

TEST_CASE("permissions: take_write_from_others -> only that is added to the umask") {
  const mode_t before = ::umask(0002);
  os::take_write_from_others();
  const mode_t open = ::umask(0077);
  os::take_write_from_others();
  const mode_t closed = ::umask(before);
  CHECK(open == 0022);
  CHECK(closed == 0077);
}

TEST_CASE(
    "own files: remove_own_folder -> these files and the folder; links and strange files stay") {
  const Folder run;
  const std::string old = run / "after/eval-1", out = run / "elsewhere";
  const auto fill = [&] {
    REQUIRE(os::make_directories(old, 0700));
    for (const char* name : {"/order.json", "/end-x.json"})
      REQUIRE(os::replace_file(old + name, "x", os::Durability::Cached, 0664));
  };
  const auto remove = [&](const std::vector<std::string>& files) {
    return os::remove_own_folder(run.path, "after/eval-1", files);
  };
  fill();
  CHECK(remove({"order.json", "end-x.json", "claim-x"}));
  CHECK_FALSE(os::exists(old));
  CHECK(os::exists(run / "after"));
  CHECK(remove({"order.json"}));  // repeated

  fill();
  const Status strange = remove({"order.json"});  // end-x.json is not named: it stays
  CHECK_FALSE(strange);
  CHECK(os::list_directory(old)->size() == 1);

  fill();
  run.write("elsewhere", "mine");
  fs::remove(old + "/order.json");
  fs::create_symlink(out, old + "/order.json");
  const Status link = remove({"order.json", "end-x.json"});
  REQUIRE_FALSE(link);
  CHECK(os::is_refusal(link.error()));
  CHECK(os::exists(out));
  CHECK(os::exists(old + "/end-x.json"));

  fs::remove_all(run / "after");
  REQUIRE(os::make_directories(run / "store/eval-1", 0700));
  run.write("store/eval-1/order.json", "x");
  fs::create_directory_symlink(run / "store", run / "after");
  CHECK_FALSE(remove({"order.json"}));
  CHECK(os::exists(run / "store/eval-1/order.json"));
  if (::geteuid() != 0) return;  // to make it another user's
  fs::remove(run / "after");
  fill();
  REQUIRE(::chown((old + "/order.json").c_str(), 65534, 65534) == 0);
  CHECK_FALSE(remove({"order.json", "end-x.json"}));
  CHECK(os::exists(old + "/end-x.json"));
}
