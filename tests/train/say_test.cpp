// What a training prints of others' texts is safe for a terminal; its documents keep them.
#include "worker/train/run/say.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <functional>
#include <unistd.h>

#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "wire/environment.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

std::string said(int fd, const std::function<void()>& speak) {
  const stoker::testing::Folder folder;
  const std::string path = folder.write("said", "");
  const int before = ::dup(fd);
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  REQUIRE(::dup2(file, fd) == fd);
  speak();
  REQUIRE(::dup2(before, fd) == fd);
  ::close(file);
  ::close(before);
  return os::read_file(path).value();
}

// ESC, BEL, CSI as one character and as one byte, the order of characters turned round
const std::string kSteers =
    "run \x1b]0;x\x07 \xc2\x9b"
    "31m \x9b"
    "31m \xe2\x80\xae"
    "end";
const std::string kSafe = "run  ]0;x  ?31m ?31m ?end\n";

}  // namespace

TEST_CASE("say: what a terminal obeys or reorders -> made printable, lines stay") {
  CHECK(said(STDOUT_FILENO, [] { say(kSteers); }) == kSafe);
  CHECK(said(STDOUT_FILENO, [] { say("a\nb"); }) == "a\nb\n");
  CHECK(said(STDERR_FILENO, [] { complain(kSteers); }) == "stoker-train: " + kSafe);
  CHECK(said(STDERR_FILENO, [] {
          complain(Error{"odd", "\xc2\x9b", ""});
        }) == "stoker-train: error: ?: odd\n");
}

TEST_CASE("say_json: texts as they are") {
  CHECK(said(STDOUT_FILENO, [] {
          say_json(Json{{"text", "\xe2\x80\xae"}});
        }) == "{\"text\":\"\xe2\x80\xae\"}\n");
}

TEST_CASE("tell_event: the line has the word of the agent; by hand it has no word") {
  const wire::AgentBody body = wire::SaveFailed{Iteration(3), "disk full"};
  const std::string json = dump_json(Json(body)) + "\n";
  ::unsetenv(wire::env::kEventWord);
  CHECK(said(STDOUT_FILENO, [&] { tell_event(body); }) == "stoker-event " + json);
  ::setenv(wire::env::kEventWord, "0123abcd", 1);
  CHECK(said(STDOUT_FILENO, [&] { tell_event(body); }) == "stoker-event 0123abcd " + json);
  ::unsetenv(wire::env::kEventWord);
}
