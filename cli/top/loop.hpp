// The loop of `stoker top`: look, lay out, draw, wait for a key or a second. What it looks at and
// how it acts are given, so that a test gives its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/top/selection.hpp"
#include "cli/top/terminal.hpp"
#include "cli/top/view.hpp"
#include "common/time.hpp"

namespace stoker::cli::top {

struct Said {
  bool good = false;
  std::string text;  // one sentence
};

struct Wiring {
  // The view for this page, now. Valid until the next call.
  std::function<const View&(const Selection&)> look;
  // Runs a command of `stoker` ({"save", "hello"}), or only asks what it would do.
  std::function<Said(const std::vector<std::string>& words, bool dry_run)> act;
};

// How long to rest after a look that took `cpu`: a second, longer where looks are dear, and never
// so long that a dead daemon stays unseen for five seconds.
Duration rest_after(Duration cpu);

// Returns when the person quits (0) or SIGINT, SIGTERM or SIGHUP came (its number). The terminal is
// the caller's; signals are as before again.
int show(Terminal& terminal, Selection selection, const Wiring& wiring);

}  // namespace stoker::cli::top
