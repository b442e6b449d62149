// A compilation of patterns that takes long, and a daemon that is asked to leave meanwhile.
#include "daemon/logs/log_knowledge.hpp"

#include <doctest/doctest.h>
#include <future>

#include "daemon/loop/mount_thread.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::daemon;

namespace {

// Compiles until `go`; shared with a thread that may outlive the test's scope.
struct SlowCompiler {
  std::promise<void> began, go, ended;
  std::future<void> may_end = go.get_future();
  std::atomic<bool> waited_for = false;  // no `go` came: the stop waited for the end

  static LogKnowledge::Compile of(const std::shared_ptr<SlowCompiler>& slow) {
    return [slow](const std::vector<diagnose::SiteFile>&, const std::string&) {
      slow->began.set_value();
      slow->waited_for = slow->may_end.wait_for(20s) == std::future_status::timeout;
      slow->ended.set_value();
      return LogKnowledge::Made{};
    };
  }
};

// A mount whose run wants patterns, stopped while they are compiled.
void stop_amid(bool at_once) {
  stoker::testing::Folder folder;
  std::filesystem::create_directory(folder / "gen-000001");
  folder.append("gen-000001/main.log", "[n01:0] starting\n");
  core::RunPolicy policy;
  policy.run = RunName("demo");
  policy.directory = folder.path;
  EngineClock clock(std::nullopt);
  const auto slow = std::make_shared<SlowCompiler>();
  bool flushed = false;
  {
    MountThread mount(
        clock, [](const std::vector<core::Input>&) {},
        [&] { return LogKnowledge(at_once, "", SlowCompiler::of(slow)); });
    mount.watch(policy);
    slow->began.get_future().wait();
    mount.post([&flushed] { flushed = true; });
    mount.leave();
    mount.stop();
  }
  CHECK(flushed);  // what was asked before the stop is done
  CHECK_FALSE(slow->waited_for);
  CHECK(LogKnowledge::left_behind());
  slow->go.set_value();
  slow->ended.get_future().wait();
}

}  // namespace

TEST_CASE("log knowledge: a stop amid a compilation -> does what is due and does not wait") {
  stop_amid(false);
}

TEST_CASE("log knowledge: a stop of one pass that waits for a compilation -> does not wait") {
  stop_amid(true);
}

TEST_CASE("log knowledge: one that is not left waits, and one that is left begins nothing") {
  std::atomic<int> compiled = 0;
  const auto compile = [&](const std::vector<diagnose::SiteFile>&, const std::string&) {
    ++compiled;
    return LogKnowledge::Made{};
  };
  std::vector<std::string> wrong;
  { CHECK(LogKnowledge(false, "", compile).with({}, wrong) == nullptr); }
  CHECK(compiled == 1);
  LogKnowledge knowledge(false, "", compile);
  knowledge.leave();
  CHECK(knowledge.with({}, wrong) == nullptr);
  CHECK(compiled == 1);
}
