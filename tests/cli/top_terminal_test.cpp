// The loop and ncurses on a pseudo-terminal: keys, actions, and the terminal given back however it
// ends.
#include <csignal>
#include <fcntl.h>
#include <pty.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <termios.h>

#include "cli/show/screen_size.hpp"
#include "cli/show/watch_screen.hpp"
#include "cli/top/loop.hpp"
#include "top_view.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;
using cli::top::Terminal;
using cli::top::View;

namespace {

using Words = std::vector<std::string>;

// A terminal of 24 x 80; what is written to it is kept.
class Pty {
 public:
  Pty() {
    winsize size{24, 80, 0, 0};
    int ours = -1, theirs = -1;
    REQUIRE(::openpty(&ours, &theirs, nullptr, nullptr, &size) == 0);
    ours_.reset(ours);
    file_ = ::fdopen(theirs, "r+");
    before_ = settings();
    reader_ = std::thread([this] {
      char buffer[4096];
      for (ssize_t n; (n = ::read(ours_.get(), buffer, sizeof buffer)) > 0;)
        written_.append(buffer, static_cast<std::size_t>(n));
    });
  }
  ~Pty() {
    if (reader_.joinable()) close();
  }
  // All that was written; the terminal is gone afterwards.
  std::string close() {
    std::fclose(file_);
    reader_.join();
    return written_;
  }
  void type(const std::string& keys) const {
    REQUIRE(::write(ours_.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()));
  }
  [[nodiscard]] bool as_before() const {
    const termios now = settings();
    return now.c_lflag == before_.c_lflag && now.c_iflag == before_.c_iflag &&
           now.c_oflag == before_.c_oflag;
  }
  [[nodiscard]] std::FILE* file() const { return file_; }

 private:
  [[nodiscard]] termios settings() const {
    termios t{};
    ::tcgetattr(::fileno(file_), &t);
    return t;
  }
  os::Fd ours_;
  std::FILE* file_ = nullptr;
  termios before_{};
  std::thread reader_;
  std::string written_;
};

constexpr const char* kLeaveFullScreen = "\033[?1049l";

struct Deeds {
  View view = three_runs();
  std::vector<Words> tried, done;
  top::Wiring wiring() {
    return {[this](const top::Selection&) -> const View& { return view; },
            [this](const Words& words, bool dry_run) {
              (dry_run ? tried : done).push_back(words);
              return top::Said{true, dry_run ? "would: do it" : "done"};
            }};
  }
};

}  // namespace

TEST_CASE("top terminal: keys on a terminal -> moved, asked, done, quit; the terminal as before") {
  Pty pty;
  Deeds deeds;
  const auto wiring = deeds.wiring();
  {
    auto terminal = Terminal::open("xterm", pty.file(), pty.file(), true);
    REQUIRE(terminal.has_value());
    CHECK((*terminal)->rows() == 24);
    CHECK((*terminal)->columns() == 80);
    CHECK_FALSE(pty.as_before());
    pty.type("\033[B\033OBs");  // down as two kinds of terminals say it
    pty.type("n");
    pty.type("sy");
    pty.type("\rq");
    pty.type("q");
    CHECK(top::show(**terminal, {}, wiring) == 0);
  }
  CHECK(pty.as_before());
  CHECK(deeds.tried == std::vector<Words>{{"save", "hello"}, {"save", "hello"}});
  CHECK(deeds.done == std::vector<Words>{{"save", "hello"}});
  const std::string written = pty.close();
  CHECK(written.find("tr11-176B") != std::string::npos);
  CHECK(written.find(kLeaveFullScreen) != std::string::npos);
}

TEST_CASE("top terminal: an exception in the loop -> the terminal as before") {
  Pty pty;
  const top::Wiring wiring{
      [](const top::Selection&) -> const View& { throw std::runtime_error("x"); }, {}};
  bool caught = false;
  try {
    auto terminal = Terminal::open("xterm", pty.file(), pty.file(), false);
    REQUIRE(terminal.has_value());
    top::show(**terminal, {}, wiring);
  } catch (const std::runtime_error&) {
    caught = true;
  }
  CHECK(caught);
  CHECK(pty.as_before());
  CHECK(pty.close().find(kLeaveFullScreen) != std::string::npos);
}

TEST_CASE("top terminal: SIGTERM -> its number; handlers as before") {
  Pty pty;
  Deeds deeds;
  int looks = 0;
  const top::Wiring wiring{[&](const top::Selection&) -> const View& {
                             if (++looks == 1) ::raise(SIGTERM);  // blocked until the loop waits
                             return deeds.view;
                           },
                           {}};
  const auto handlers = [] {
    std::vector<void*> found;
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGABRT, SIGWINCH, SIGTSTP}) {
      struct sigaction action {};
      ::sigaction(signal, nullptr, &action);
      found.push_back(reinterpret_cast<void*>(action.sa_handler));
    }
    return found;
  };
  const auto before = handlers();
  {
    auto terminal = Terminal::open("xterm", pty.file(), pty.file(), false);
    REQUIRE(terminal.has_value());
    CHECK(top::show(**terminal, {}, wiring) == SIGTERM);
  }
  CHECK(looks == 1);
  CHECK(handlers() == before);
  CHECK(pty.as_before());
}

TEST_CASE("top terminal: an equal screen -> nothing is sent") {
  Pty pty;
  top::Cells cells(24, 80);
  cells.put(0, 0, "one");
  std::size_t first = 0;
  {
    auto terminal = Terminal::open("xterm", pty.file(), pty.file(), false);
    REQUIRE(terminal.has_value());
    (*terminal)->draw(cells);
    for (int i = 0; i < 100; ++i) (*terminal)->draw(cells);
    first = 1;
  }
  const std::string written = pty.close();
  CHECK(first == 1);
  CHECK(written.find("one") == written.rfind("one"));
  CHECK(written.size() < 1000);
}

TEST_CASE("top terminal: where there is no full screen -> why") {
  Pty pty;
  const int fd = ::fileno(pty.file());
  CHECK(Terminal::why_not("xterm", fd, fd).empty());
  CHECK(Terminal::why_not("dumb", fd, fd) == "TERM=dumb");
  CHECK(Terminal::why_not("", fd, fd) == "TERM is not set");
  CHECK(Terminal::why_not("no-such-terminal", fd, fd) ==
        "this host does not know "
        "TERM=no-such-terminal");
  const os::Fd file(::open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK(Terminal::why_not("xterm", file.get(), fd) == "input and output are not a terminal");
  CHECK_FALSE(Terminal::open("dumb", pty.file(), pty.file(), false).has_value());
}

TEST_CASE(
    "top terminal: rests -> a second, longer after a dear look, a dead daemon is seen in 5 s") {
  CHECK(top::rest_after(1ms) == 1s);
  CHECK(top::rest_after(10ms) == 1500ms);
  CHECK(top::rest_after(1s) == 2s);
}

TEST_CASE("watch: blocks that fit -> as they are; else every state first, cut to the columns") {
  const std::vector<std::string> blocks = {"* one  held\n  why  1\n  job  2\n",
                                           "* two  training\n  why  a long sentence\n"};
  CHECK(watch_screen(blocks, {24, 80}) == blocks[0] + blocks[1]);
  CHECK(watch_screen(blocks, {5, 13}) == "* one  held\n  why  1\n* two  train~\n... 2 more l~\n");
  CHECK(watch_screen(blocks, {3, 40}) == "* one  held\n... 1 more runs: stoker top shows them\n");
  CHECK(watch_screen(blocks, {1, 40}) == "* one  held\n");
  CHECK(watch_screen({"* \033[1mhello\033[0m\n"}, {24, 4}) == "* \033[1mh~\033[0m\n");
  CHECK(watch_screen({}, {24, 80}).empty());
}

TEST_CASE("watch: COLUMNS and LINES -> before the terminal's size; nonsense is ignored") {
  Pty pty;
  const int fd = ::fileno(pty.file());
  CHECK(screen_size({}, fd).rows == 24);
  CHECK(screen_size({{"LINES", "10"}, {"COLUMNS", "33"}}, fd).rows == 10);
  CHECK(screen_size({{"LINES", "10"}, {"COLUMNS", "33"}}, fd).columns == 33);
  CHECK(screen_size({{"LINES", "-1"}, {"COLUMNS", "1e9"}}, fd).columns == 80);
  CHECK(screen_size({{"LINES", "99999999"}}, fd).rows == 1000);
  CHECK(screen_size({}, -1).columns == 80);
}

TEST_CASE("watch: status --watch with COLUMNS -> cut, the worst run first, ends with the runs") {
  const Site site;
  auto status = training_status();
  status.state = "finished";
  site.publish(status);
  const auto said = site.stoker({"status", "--watch"}, {{"COLUMNS", "30"}, {"LINES", "5"}});
  CHECK(said.code == 0);
  CHECK(said.out ==
        "* hello  finished [stale]\n  since       2026-05-01T03:0~\n"
        "  why         first iteration~\n... 9 more lines: stoker top ~\n");
}

TEST_CASE(
    "top: no terminal -> the text of status, one line says so; --once -> one screen as text") {
  const Site site;
  site.publish(training_status());
  const auto said = site.stoker({"top"}, {{"TERM", "dumb"}});
  CHECK(said.code == 0);
  CHECK(said.err.find("no full screen here (") != std::string::npos);
  CHECK(said.out.find("* hello  training [stale]") != std::string::npos);
  const auto once = site.stoker({"top", "--once"}, {{"COLUMNS", "60"}, {"LINES", "12"}});
  CHECK(once.code == 0);
  CHECK(std::count(once.out.begin(), once.out.end(), '\n') == 12);
  CHECK(once.out.find("> hello training") != std::string::npos);
  const auto page = site.stoker({"top", "hello", "--page", "alerts", "--once"});
  CHECK(page.out.find("[alerts]") != std::string::npos);
  CHECK(site.stoker({"top", "helo"}).err.find("did you mean \"hello\"?") != std::string::npos);
  CHECK(site.stoker({"top", "--page", "why"}).code == 2);
  CHECK(site.stoker({"top", "hello", "--page", "x"}).code == 2);
}
