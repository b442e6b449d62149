// Selection: what a person has chosen on the screen, and how a key changes it. A state machine
// without terminal and clock. Keys that act never act at once: they wish for a dry run (Ask), the
// answer becomes a question, and only `y` requests the action (Do).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/top/view.hpp"

namespace stoker::cli::top {

enum class Page { Runs, Why, Nodes, Logs, Events, Alerts, Followers };
inline constexpr Page kLastPage = Page::Followers;

struct Question {
  std::vector<std::string> words;  // of the command line: {"save", "hello"}
  std::string dry_run;             // what the command says it would do
};

struct Selection {
  Page page = Page::Runs;
  std::string run;          // "" = the worst
  std::string alert;        // id; "" = the first
  std::size_t scroll = 0;   // lines; of the log from its end, else from the beginning
  std::string filter;       // of the runs
  std::string page_filter;  // of the lines of the open page
  bool typing = false;      // the filter of this page
  bool help = false;
  std::optional<Question> question;
  std::string message;  // one sentence, until the next key
};

enum class KeyKind {
  Text,
  Up,
  Down,
  Left,
  Right,
  PageUp,
  PageDown,
  Home,
  End,
  Enter,
  Escape,
  Backspace,
  Tab,
  BackTab,
  Help,
  Quit
};
struct Key {
  KeyKind kind = KeyKind::Text;
  std::string text;  // one character, UTF-8; Text only
};

enum class WishKind { Nothing, Quit, Ask, Do };
struct Wish {
  WishKind kind = WishKind::Nothing;
  std::vector<std::string> words;  // Ask, Do
};

// How much the layout had to show, and room for: what scrolling is bounded by.
struct Extent {
  std::size_t lines = 0, room = 0;
};

Wish press(Selection& selection, const Key& key, const View& view, Extent extent);

// The answer of a dry run: a question, or where it failed its message.
void take_dry_run(Selection& selection, std::vector<std::string> words, bool good,
                  std::string text);

// The run that the cursor is on; nullptr: no run.
const wire::StatusDocument* chosen_run(const View& view, const Selection& selection);
// The alert that `A` acknowledges: on the page of alerts the chosen one; elsewhere the first of the
// chosen run that is not acknowledged; on the first screen else the first of the site. nullptr:
// no alert.
const wire::StatusAlert* chosen_alert(const View& view, const Selection& selection);

// "why", "nodes" …; "runs" for the first screen.
std::string_view page_name(Page page);

}  // namespace stoker::cli::top
