// Signals are blocked but while the loop waits, so that none is missed between two waits.
#include "cli/top/loop.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <optional>
#include <poll.h>

#include "cli/top/layout.hpp"

namespace stoker::cli::top {
namespace {

constexpr int kMostEmptyWakes = 100;  // a closed terminal stays readable
volatile std::sig_atomic_t g_ended_by = 0;

extern "C" void note_end(int signal) {
  g_ended_by = signal;
}

class Signals {
 public:
  Signals() {
    g_ended_by = 0;
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, SIGWINCH);  // ncurses has its handler
    struct sigaction handler {};
    handler.sa_handler = note_end;
    for (std::size_t i = 0; i < kEnds.size(); ++i) {
      ::sigaction(kEnds[i], &handler, &before_[i]);
      sigaddset(&ours, kEnds[i]);
    }
    ::sigprocmask(SIG_BLOCK, &ours, &mask_before_);
    waiting_ = mask_before_;
    for (const int signal : kEnds) sigdelset(&waiting_, signal);
    sigdelset(&waiting_, SIGWINCH);
  }
  ~Signals() {
    for (std::size_t i = 0; i < kEnds.size(); ++i) ::sigaction(kEnds[i], &before_[i], nullptr);
    ::sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  [[nodiscard]] const sigset_t* waiting() const { return &waiting_; }

 private:
  static constexpr std::array kEnds = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kEnds.size()> before_{};
  sigset_t mask_before_{}, waiting_{};
};

Duration cpu_now() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

// True when there is something to read.
bool wait_for_input(int fd, Duration time, const sigset_t* mask) {
  pollfd p{fd, POLLIN, 0};
  const auto ns = std::max<std::int64_t>(time.count(), 0);
  const timespec limit{ns / 1'000'000'000, ns % 1'000'000'000};
  return ::ppoll(&p, 1, &limit, mask) > 0;
}

class Loop {
 public:
  Loop(Terminal& terminal, Selection selection, const Wiring& wiring)
      : terminal_(terminal), selection_(std::move(selection)), wiring_(wiring) {}

  int run() {
    const Signals signals;
    for (int empty = 0; g_ended_by == 0 && empty < kMostEmptyWakes;) {
      const Duration before = cpu_now();
      look();
      draw();
      const Instant next = monotonic_now() + rest_after(cpu_now() - before);
      bool stale = false;  // what is on the screen needs another look
      while (g_ended_by == 0 && !stale && monotonic_now() < next && empty < kMostEmptyWakes) {
        const bool ready =
            wait_for_input(terminal_.input(), next - monotonic_now(), signals.waiting());
        const std::size_t keys = take_keys(stale);
        if (quit_) return 0;
        empty = ready && keys == 0 ? empty + 1 : 0;
      }
    }
    return g_ended_by != 0 ? g_ended_by : SIGHUP;
  }

 private:
  void look() { view_ = &wiring_.look(selection_); }

  void draw() {
    Frame frame = layout(*view_, selection_, terminal_.rows(), terminal_.columns());
    extent_ = frame.extent;
    terminal_.draw(frame.cells);
  }

  // All keys that are there; what they changed is drawn at once.
  std::size_t take_keys(bool& stale) {
    std::size_t keys = 0;
    bool resized = false;
    while (const auto key = terminal_.key(resized)) {
      ++keys;
      const Page page = selection_.page;
      const std::string run = selection_.run;
      obey(press(selection_, *key, *view_, extent_), stale);
      if (quit_) return keys;
      stale = stale || page != selection_.page || (page != Page::Runs && run != selection_.run);
      if (!stale) draw();
    }
    if (resized && !stale) draw();
    return keys + (resized ? 1 : 0);
  }

  void obey(const Wish& wish, bool& stale) {
    if (wish.kind == WishKind::Quit) quit_ = true;
    if (wish.kind != WishKind::Ask && wish.kind != WishKind::Do) return;
    selection_.message = "asking the daemon ...";
    draw();
    Said said = wiring_.act(wish.words, wish.kind == WishKind::Ask);
    selection_.message.clear();
    if (wish.kind == WishKind::Ask)
      take_dry_run(selection_, wish.words, said.good, std::move(said.text));
    else
      selection_.message = std::move(said.text);
    stale = true;
  }

  Terminal& terminal_;
  Selection selection_;
  const Wiring& wiring_;
  const View* view_ = nullptr;
  Extent extent_;
  bool quit_ = false;
};

}  // namespace

Duration rest_after(Duration cpu) {
  return std::clamp<Duration>(150 * cpu, 1s, 2s);
}

int show(Terminal& terminal, Selection selection, const Wiring& wiring) {
  return Loop(terminal, std::move(selection), wiring).run();
}

}  // namespace stoker::cli::top
