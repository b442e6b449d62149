// Switch files, good and hostile; free space; the run watcher that joins them.
#include <grp.h>
#include <sys/stat.h>

#include "common/os/own_files.hpp"
#include "tests/folder.hpp"
#include "watch/inotify.hpp"
#include "watch/run_watcher.hpp"

using namespace stoker;
using namespace stoker::watch;
using stoker::testing::Folder;

namespace {

constexpr WallTime kLater{std::chrono::hours(24 * 365 * 200)};  // every file is old by then

struct Switches {
  Folder folder;
  std::vector<core::Cursor> cursors;
  std::string group;
  std::unique_ptr<SwitchFiles> files = start();

  std::unique_ptr<SwitchFiles> start() const {
    return std::make_unique<SwitchFiles>(SwitchOptions{RunName("run"), folder.path, group},
                                         cursors);
  }
  std::vector<core::Input> poll(WallTime wall = kLater) {
    std::vector<core::Input> out;
    files->poll(wall, out);
    for (const auto& input : out) cursors.push_back(input.cursors.at(0));
    return out;
  }
};

std::string refusal(const std::vector<core::Input>& inputs) {
  REQUIRE(inputs.size() == 1);
  return std::get<core::SwitchRefused>(inputs[0].body).why;
}

// Of a run without limits on its disk.
RunWatcher watcher_of(const Folder& folder) {
  RunWatchOptions options;
  options.policy.run = RunName("run");
  options.policy.directory = folder.path;
  options.policy.watch.disk_min_free = 0;
  options.policy.watch.disk_min_free_inodes = 0;
  return RunWatcher(options, {});
}

}  // namespace

TEST_CASE("switch: each verb in any case -> asked once, with author, reason and file name") {
  Switches s;
  s.folder.write("Save", R"({"by": "mallory", "reason": "before the\nmaintenance", "until": "x"})");
  const auto inputs = s.poll();
  REQUIRE(inputs.size() == 1);
  const auto& asked = std::get<core::OperatorAsked>(inputs[0].body);
  CHECK(asked.verb == "save");
  CHECK(asked.via == "switch file");
  CHECK(asked.by == os::user_name_of(::geteuid()));
  CHECK(asked.arguments.at("claimed_by") == "mallory");
  CHECK(asked.arguments.at("until") == "x");
  CHECK(asked.arguments.at("file") == "Save");
  CHECK(asked.reason == "before the maintenance");
  CHECK(s.poll().empty());
  s.files = s.start();  // the daemon restarts before the switch was consumed
  CHECK(s.poll().empty());
  std::filesystem::rename(s.folder / "Save", s.folder / ".handled-Save-12");
  CHECK(s.poll().empty());
  s.folder.write("Save", "again");
  REQUIRE(s.poll().size() == 1);
}

TEST_CASE("switch: empty, free text, broken JSON -> the text is the reason") {
  Switches s;
  s.folder.write("stop", "");
  s.folder.write("kill", "node is on fire\n");
  s.folder.write("pause", "{\"by\": ");
  const auto inputs = s.poll();
  REQUIRE(inputs.size() == 3);
  CHECK(std::get<core::OperatorAsked>(inputs[0].body).reason == "node is on fire");
  CHECK(std::get<core::OperatorAsked>(inputs[1].body).reason == "{\"by\":");
  CHECK(std::get<core::OperatorAsked>(inputs[2].body).reason.empty());
}

TEST_CASE("switch: behind hundreds of junk names and spellings -> a real one is still seen") {
  Switches s;
  for (int i = 0; i < 300; ++i) s.folder.write("aaa" + std::to_string(i), "");
  for (unsigned spelling = 1; spelling < 64; ++spelling) {  // of restart: Restart, rEstart, …
    std::string name = "restart";
    for (unsigned i = 0; i < 6; ++i)
      if ((spelling >> i & 1u) != 0) name[i] = static_cast<char>(name[i] - 'a' + 'A');
    std::filesystem::create_symlink("/etc/passwd", s.folder / name);
  }
  s.folder.write("kill", "now");
  s.folder.write("STOP", "now");
  std::vector<std::string> verbs;
  for (const auto& input : s.poll())
    if (const auto* asked = std::get_if<core::OperatorAsked>(&input.body))
      verbs.push_back(asked->verb);
  CHECK(verbs == std::vector<std::string>{"stop", "kill"});
}

TEST_CASE("switch: junk that changes all the time -> ten rows a minute, and a real one is asked") {
  Switches s;
  std::size_t rows = 0;
  WallTime wall = kLater;
  for (int turn = 0; turn < 120; ++turn, wall += 1s) {
    for (int i = 0; i < 60; ++i)
      s.folder.write("junk" + std::to_string(i), std::string(1 + turn % 7, 'x'));
    rows += s.poll(wall).size();
  }
  CHECK(rows == 20);
  s.folder.write("kill", "enough");
  const auto inputs = s.poll(wall + 1s);
  CHECK(std::any_of(inputs.begin(), inputs.end(), [](const core::Input& input) {
    return std::holds_alternative<core::OperatorAsked>(input.body);
  }));
}

TEST_CASE("switch: a file that is being written -> reported when it has settled") {
  Switches s;
  s.folder.write("save", "");
  const WallTime early{};  // by this clock the file is from the future
  CHECK(s.poll(early).empty());
  CHECK(s.files->unsettled());
  s.folder.write("save", "because of the maintenance");
  CHECK(s.poll(early).empty());
  const auto inputs = s.poll(early);
  REQUIRE(inputs.size() == 1);
  CHECK(std::get<core::OperatorAsked>(inputs[0].body).reason == "because of the maintenance");
}

TEST_CASE("switch: link, FIFO, folder, huge, two names, unknown name -> refused once, never read") {
  Switches s;
  s.folder.write("elsewhere.txt", "secret");
  std::filesystem::rename(s.folder / "elsewhere.txt", s.folder / ".elsewhere");
  const auto refused_once = [&](const std::string& name) {
    const std::string why = refusal(s.poll());
    CHECK(s.poll().empty());
    s.files = s.start();
    CHECK(s.poll().empty());
    std::filesystem::remove_all(s.folder / name);
    CHECK(s.poll().empty());
    return why;
  };
  std::filesystem::create_symlink(s.folder / ".elsewhere", s.folder / "stop");
  CHECK(refused_once("stop") == "it is a symbolic link");
  REQUIRE(::mkfifo((s.folder / "kill").c_str(), 0666) == 0);
  CHECK(refused_once("kill") == "it is a FIFO");
  std::filesystem::create_directory(s.folder / "save");
  CHECK(refused_once("save") == "it is a directory");
  s.folder.write("pause", std::string(65537, 'x'));
  CHECK(refused_once("pause") == "it has 65537 bytes, 65536 at most");
  std::filesystem::create_hard_link(s.folder / ".elsewhere", s.folder / "resume");
  CHECK(refused_once("resume") == "it has several names: the author is unknown");
  s.folder.write("halt", "");
  CHECK(refused_once("halt").starts_with("no such switch"));
}

TEST_CASE("switch: a file of a stranger -> refused; of a group member -> asked") {
  if (::geteuid() != 0) {
    std::puts("SKIPPED: only root can give files away");
    return;
  }
  Switches s;
  const uid_t daemon_user = 1;  // of every Debian: member of the group "daemon"
  s.folder.write("stop", "");
  REQUIRE(::chown((s.folder / "stop").c_str(), daemon_user, 0) == 0);
  CHECK(refusal(s.poll()) == "its owner daemon is not the daemon's user, and no group is set");
  s.group = "adm";
  s.cursors.clear();
  s.files = s.start();
  CHECK(refusal(s.poll()) == "its owner daemon is not in the group adm");
  s.group = "daemon";
  s.cursors.clear();
  s.files = s.start();
  const auto inputs = s.poll();
  REQUIRE(inputs.size() == 1);
  CHECK(std::get<core::OperatorAsked>(inputs[0].body).by ==
        "a member of the group daemon (by a file of daemon)");
  s.group = "no-such-group";
  s.cursors.clear();
  s.files = s.start();
  CHECK(refusal(s.poll()) == "no-such-group: no such group");
}

namespace {

constexpr uid_t kMember = 1;  // of every Debian: "daemon", member of the group "daemon"

bool with_group(Switches& s) {
  if (::geteuid() != 0) {
    std::puts("SKIPPED: only root can give files away");
    return false;
  }
  s.group = "daemon";
  s.files = s.start();
  return true;
}

}  // namespace

TEST_CASE("switch: another file of a name that was reported -> another order") {
  Switches s;
  s.folder.write("kill", "first");
  REQUIRE(s.poll().size() == 1);
  std::filesystem::remove(s.folder / "kill");  // and made again before the next poll
  s.folder.write(".next", "second, of somebody else");
  std::filesystem::rename(s.folder / ".next", s.folder / "kill");
  const auto inputs = s.poll();
  REQUIRE(inputs.size() == 1);
  CHECK(std::get<core::OperatorAsked>(inputs[0].body).reason == "second, of somebody else");
}

TEST_CASE("switch: a file of ours that a member moved here -> no order, and not repeated") {
  Switches s;
  if (!with_group(s)) return;
  s.folder.write("save", "a private key");
  REQUIRE(::chown((s.folder / "save").c_str(), 0, 4711) == 0);  // made in a folder of another group
  CHECK(refusal(s.poll()).find("moved here") != std::string::npos);
}

TEST_CASE(
    "switch: a file of ours that a member may have moved here -> asked by the group, not us") {
  Switches s;
  if (!with_group(s)) return;
  REQUIRE(::chown(s.folder.path.c_str(), 0, kMember) == 0);
  const std::string us = os::user_name_of(::geteuid());
  const auto author = [&](const std::string& text) {
    s.folder.write("save", text);
    REQUIRE(::chown((s.folder / "save").c_str(), 0, kMember) == 0);
    const auto inputs = s.poll();
    REQUIRE(inputs.size() == 1);
    std::filesystem::remove(s.folder / "save");
    CHECK(s.poll().empty());
    return std::get<core::OperatorAsked>(inputs[0].body).by;
  };
  const std::string a_member = "a member of the group daemon (by a file of " + us + ")";
  CHECK(author("notes of the meeting") == a_member);
  CHECK(author(R"({"by": "mallory", "reason": "x", "until": ""})") == a_member);
  CHECK(author("{\"by\": \"" + us + R"(", "reason": "x", "until": ""})") ==
        us);  // as stoker writes it
}

TEST_CASE("switch: a text that the group may not read -> the order counts, the text is not shown") {
  Switches s;
  if (!with_group(s)) return;
  s.folder.write("save", "a private key");
  REQUIRE(::chmod((s.folder / "save").c_str(), 0600) == 0);
  const auto inputs = s.poll();
  REQUIRE(inputs.size() == 1);
  const auto& asked = std::get<core::OperatorAsked>(inputs[0].body);
  CHECK(asked.verb == "save");
  CHECK(asked.reason.find("private key") == std::string::npos);
}

TEST_CASE("switch: a member's orders -> ten a minute; the others wait; ours are not counted") {
  Switches s;
  if (!with_group(s)) return;
  const auto spell = [&](unsigned from, unsigned to, uid_t user) {
    for (unsigned spelling = from; spelling < to; ++spelling) {
      std::string name = "restart";
      for (unsigned i = 0; i < 7; ++i)
        if ((spelling >> i & 1u) != 0) name[i] = static_cast<char>(name[i] - 'a' + 'A');
      s.folder.write(name, "x");
      REQUIRE(::chown((s.folder / name).c_str(), user, static_cast<gid_t>(-1)) == 0);
    }
  };
  spell(1, 31, kMember);
  CHECK(s.poll(kLater).size() == 10);
  CHECK(s.poll(kLater + 1s).empty());
  CHECK(s.poll(kLater + 61s).size() == 10);
  spell(31, 51, 0);
  CHECK(s.poll(kLater + 62s).size() == 20);
}

TEST_CASE("switch: a member's orders -> 1000 a day; kill and stop are taken all the same") {
  Switches s;
  if (!with_group(s)) return;
  const auto order = [&](const std::string& verb, WallTime wall) {
    static int size = 0;
    s.folder.write(verb, std::string(static_cast<std::size_t>(1 + size++ % 400), 'x'));
    REQUIRE(::chown((s.folder / verb).c_str(), kMember, static_cast<gid_t>(-1)) == 0);
    return s.poll(wall);
  };
  const auto is_order = [](const std::vector<core::Input>& inputs) {
    return inputs.size() == 1 && std::holds_alternative<core::OperatorAsked>(inputs[0].body);
  };
  WallTime wall = kLater;
  for (int i = 0; i < 1000; ++i, wall += 6s) REQUIRE(is_order(order("save", wall)));
  const auto refused = order("save", wall);
  REQUIRE(refused.size() == 1);
  const auto* why = std::get_if<core::SwitchRefused>(&refused[0].body);
  REQUIRE(why);
  CAPTURE(why->why);
  CHECK(why->why.find(" has given 1000 orders since ") != std::string::npos);
  CHECK(why->why.find("kill and stop are taken at any time") != std::string::npos);
  CHECK(is_order(order("stop", wall)));
  CHECK(is_order(order("kill", wall)));
  CHECK(order("kill", wall + 59s).empty());  // waits, as after ten orders in a minute
  CHECK(s.poll(wall + 60s).size() == 1);
  std::size_t rows = 0;
  for (int i = 0; i < 3000; ++i, wall += 6s) rows += order("pause", wall).size();
  CHECK(rows <= 1000);
  CHECK(is_order(order("kill", wall)));
  CHECK(is_order(order("save", kLater + 24h)));
}

TEST_CASE("switch: U+202E in a reason -> not repeated as it is") {
  Switches s;
  s.folder.write("save",
                 "a\xe2\x80\xae"
                 "b");
  const auto inputs = s.poll();
  REQUIRE(inputs.size() == 1);
  CHECK(std::get<core::OperatorAsked>(inputs[0].body).reason.find("\xe2\x80\xae") ==
        std::string::npos);
}

TEST_CASE("disk: below the limit and back -> one edge each, with hysteresis, also over a restart") {
  double free = 0.5;
  std::vector<core::Cursor> cursors;
  const auto make = [&] {
    return DiskWatch({RunName("run"), {"/gpfs"}, 0.05, 0.02}, cursors,
                     [&free](const std::string&) -> Result<DiskShares> {
                       return DiskShares{free, {}};
                     });
  };
  DiskWatch disk = make();
  const auto edges = [&](double share) {
    free = share;
    std::vector<core::Input> out;
    disk.poll(out);
    std::string told;
    for (const auto& input : out) {
      told += std::get<core::DiskLow>(input.body).low ? "low " : "enough ";
      cursors.push_back(input.cursors.at(0));
    }
    return told;
  };
  CHECK(edges(0.06).empty());
  CHECK(edges(0.04) == "low ");
  CHECK(edges(0.03).empty());
  disk = make();
  CHECK(edges(0.03).empty());
  CHECK(edges(0.055).empty());
  CHECK(edges(0.07) == "enough ");
  CHECK(disk_shares("/").value().free > 0);
  CHECK_FALSE(disk_shares("/nonexistent").has_value());
}

TEST_CASE("run watcher: a run directory -> inputs of all parts, hints from inotify") {
  const Folder folder;
  std::filesystem::create_directories(folder / "switch");
  std::filesystem::create_directories(folder / "gen-000001");
  RunWatcher watcher = watcher_of(folder);
  CHECK(watcher.poll(Instant(1s), kLater).empty());
  CHECK(watcher.next_poll() == Instant(2s));
  Inotify hints;
  CHECK(hints.watch("run", watcher.directories()));
  CHECK(hints.drain().empty());
  folder.write("switch/save", "");
  wire::AgentEvent event;
  event.body = wire::Beat{};
  folder.append("gen-000001/lead.jsonl", wire::format_event_line(event));
  CHECK_FALSE(hints.drain().empty());
  const auto inputs = watcher.poll(Instant(2s), kLater);
  REQUIRE(inputs.size() == 2);
  CHECK(std::string(core::kind_of(inputs[0].body)) == "operator_asked");
  CHECK(std::string(core::kind_of(inputs[1].body)) == "digest");
  CHECK(watcher.flush_digest().empty());
}

TEST_CASE("watcher: hinted files in which nothing moves -> polled less often, until they move") {
  const Folder folder;
  std::filesystem::create_directories(folder / "switch");
  RunWatcher watcher = watcher_of(folder);
  const auto pause_at = [&](Duration at) {
    (void)watcher.poll(Instant(at), kLater);
    return watcher.next_poll() - Instant(at);
  };
  CHECK(pause_at(1s) == 1s);
  CHECK(pause_at(10min) == 1s);  // no hints would come
  watcher.set_hinted(true);
  CHECK(pause_at(11min) == 10s);
  CHECK(pause_at(11min + 300ms) == 10s + 700ms);  // with those of other quiet runs
  folder.write("switch/save", "");
  CHECK(pause_at(12min) < 5s);
  CHECK(pause_at(12min + 30s) == 1s);
  CHECK(pause_at(14min) == 10s);
}
