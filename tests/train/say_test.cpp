// What a training prints of others' texts is safe for a terminal; its documents keep them.
#include "worker/train/run/say.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <functional>
#include <unistd.h>

#include "common/os/files.hpp"
#include "tests/folder.hpp"

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
