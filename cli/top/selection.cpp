// Keys as in htop and k9s; the table of them for people is in help_page.cpp.
#include "cli/top/selection.hpp"

#include <algorithm>
#include <array>

#include "cli/top/run_order.hpp"

namespace stoker::cli::top {
namespace {

constexpr std::size_t kLongestFilter = 100;
constexpr std::array kTabs = {Page::Why,    Page::Nodes,  Page::Logs,
                              Page::Events, Page::Alerts, Page::Followers};
static_assert(kTabs.back() == kLastPage);

std::string& filter_of(Selection& selection) {
  return selection.page == Page::Runs ? selection.filter : selection.page_filter;
}

void go_to(Selection& selection, Page page) {
  selection.page = page;
  selection.scroll = 0;
  selection.page_filter.clear();
  selection.alert.clear();
}

void next_tab(Selection& selection, int step) {
  if (selection.page == Page::Runs) return;
  const auto at = static_cast<int>(selection.page) - 1 + step;
  const int count = static_cast<int>(kTabs.size());
  go_to(selection, kTabs[static_cast<std::size_t>((at + count) % count)]);
}

void erase_character(std::string& text) {
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
  if (!text.empty()) text.pop_back();
}

void type(Selection& selection, const Key& key) {
  std::string& filter = filter_of(selection);
  selection.scroll = 0;
  if (key.kind == KeyKind::Text && filter.size() + key.text.size() <= kLongestFilter)
    filter += key.text;
  if (key.kind == KeyKind::Backspace) erase_character(filter);
  if (key.kind == KeyKind::Escape) filter.clear();
  if (key.kind == KeyKind::Escape || key.kind == KeyKind::Enter) selection.typing = false;
}

Wish answer(Selection& selection, const Key& key) {
  const bool yes = key.kind == KeyKind::Text && (key.text == "y" || key.text == "Y");
  const bool no = key.kind == KeyKind::Escape || key.kind == KeyKind::Enter ||
                  (key.kind == KeyKind::Text && (key.text == "n" || key.text == "N"));
  if (!yes && !no) return {};
  const Question question = *std::move(selection.question);
  selection.question.reset();
  if (yes) return {WishKind::Do, question.words};
  selection.message = "nothing was done";
  return {};
}

// By how much a key moves; `room` = a page.
std::optional<long> step_of(const Key& key, std::size_t room) {
  const long page = std::max<long>(static_cast<long>(room) - 1, 1);
  constexpr long kAll = 1L << 40;
  switch (key.kind) {
    case KeyKind::Up: return -1;
    case KeyKind::Down: return 1;
    case KeyKind::PageUp: return -page;
    case KeyKind::PageDown: return page;
    case KeyKind::Home: return -kAll;
    case KeyKind::End: return kAll;
    case KeyKind::Text:
      if (key.text == "k") return -1;
      if (key.text == "j") return 1;
      if (key.text == "g") return -kAll;
      if (key.text == "G") return kAll;
      return std::nullopt;
    case KeyKind::Left:
    case KeyKind::Right:
    case KeyKind::Enter:
    case KeyKind::Escape:
    case KeyKind::Backspace:
    case KeyKind::Tab:
    case KeyKind::BackTab:
    case KeyKind::Help:
    case KeyKind::Quit: return std::nullopt;
  }
  return std::nullopt;
}

std::size_t moved(std::size_t at, long step, std::size_t last) {
  const long wanted = static_cast<long>(std::min(at, last)) + step;
  return static_cast<std::size_t>(std::clamp<long>(wanted, 0, static_cast<long>(last)));
}

void move(Selection& selection, long step, const View& view, Extent extent) {
  if (selection.page == Page::Runs) {
    const auto runs = ordered(view, selection.filter);
    const auto* now = chosen_run(view, selection);
    if (now == nullptr) return;
    const auto at = std::find(runs.begin(), runs.end(), now) - runs.begin();
    selection.run = runs[moved(static_cast<std::size_t>(at), step, runs.size() - 1)]->run;
  } else if (selection.page == Page::Alerts) {
    const auto* run = chosen_run(view, selection);
    const auto* now = chosen_alert(view, selection);
    if (run == nullptr || now == nullptr) return;
    const auto at = static_cast<std::size_t>(now - run->alerts.data());
    selection.alert = run->alerts[moved(at, step, run->alerts.size() - 1)].id;
  } else {
    const std::size_t last = extent.lines > extent.room ? extent.lines - extent.room : 0;
    selection.scroll = moved(selection.scroll, selection.page == Page::Logs ? -step : step, last);
  }
}

Wish ask(Selection& selection, std::string_view key, const View& view) {
  const auto* run = chosen_run(view, selection);
  const auto* alert = key == "A" ? chosen_alert(view, selection) : nullptr;
  if (alert != nullptr && !alert->acknowledged) return {WishKind::Ask, {"ack", alert->id}};
  if (run == nullptr) return selection.message = "there is no run to act on", Wish{};
  const auto& conditions = run->conditions;
  const bool paused = std::find(conditions.begin(), conditions.end(), "paused") != conditions.end();
  if (key == "s") return {WishKind::Ask, {"save", run->run}};
  if (key == "p") return {WishKind::Ask, {paused ? "resume" : "pause", run->run}};
  return selection.message = run->run + " has no alert to acknowledge", Wish{};
}

Wish back(Selection& selection) {
  if (selection.page != Page::Runs) return go_to(selection, Page::Runs), Wish{};
  return selection.filter.clear(), Wish{};
}

Wish letter(Selection& selection, const std::string& text, const View& view) {
  if (text == "q" && selection.page == Page::Runs) return {WishKind::Quit, {}};
  if (text == "q") return back(selection);
  if (text == "?") selection.help = true;
  if (text == "/") selection.typing = true;
  if (text == "s" || text == "p" || text == "A") return ask(selection, text, view);
  const bool open = selection.page != Page::Runs;
  if (open && text == "l") next_tab(selection, 1);
  if (open && text == "h") next_tab(selection, -1);
  if (open && text.size() == 1 && text[0] >= '1' && text[0] < '1' + static_cast<char>(kTabs.size()))
    go_to(selection, kTabs[static_cast<std::size_t>(text[0] - '1')]);
  return {};
}

}  // namespace

Wish press(Selection& selection, const Key& key, const View& view, Extent extent) {
  selection.message.clear();
  if (key.kind == KeyKind::Quit) return {WishKind::Quit, {}};
  if (selection.question) return answer(selection, key);
  if (selection.typing) return type(selection, key), Wish{};
  if (selection.help) return selection.help = false, Wish{};
  if (const auto step = step_of(key, extent.room))
    return move(selection, *step, view, extent), Wish{};
  switch (key.kind) {
    case KeyKind::Text: return letter(selection, key.text, view);
    case KeyKind::Enter:
      if (const auto* run = chosen_run(view, selection); run && selection.page == Page::Runs) {
        selection.run = run->run;
        go_to(selection, Page::Why);
      }
      return {};
    case KeyKind::Escape: return back(selection);
    case KeyKind::Right:
    case KeyKind::Tab: return next_tab(selection, 1), Wish{};
    case KeyKind::Left:
    case KeyKind::BackTab: return next_tab(selection, -1), Wish{};
    case KeyKind::Help: return selection.help = true, Wish{};
    case KeyKind::Up:
    case KeyKind::Down:
    case KeyKind::PageUp:
    case KeyKind::PageDown:
    case KeyKind::Home:
    case KeyKind::End:
    case KeyKind::Backspace:
    case KeyKind::Quit: return {};
  }
  return {};
}

void take_dry_run(Selection& selection, std::vector<std::string> words, bool good,
                  std::string text) {
  if (good)
    selection.question = Question{std::move(words), std::move(text)};
  else
    selection.message = std::move(text);
}

const wire::StatusDocument* chosen_run(const View& view, const Selection& selection) {
  if (selection.page != Page::Runs) return run_named(view, selection.run);
  const auto runs = ordered(view, selection.filter);
  for (const auto* run : runs)
    if (run->run == selection.run) return run;
  return runs.empty() ? nullptr : runs.front();
}

const wire::StatusAlert* chosen_alert(const View& view, const Selection& selection) {
  const auto* run = chosen_run(view, selection);
  if (run != nullptr && selection.page == Page::Alerts) {
    for (const wire::StatusAlert& alert : run->alerts)
      if (alert.id == selection.alert) return &alert;
    return run->alerts.empty() ? nullptr : &run->alerts.front();
  }
  const auto first_open = [](const std::vector<wire::StatusAlert>& alerts) {
    const auto found =
        std::find_if(alerts.begin(), alerts.end(), [](const auto& a) { return !a.acknowledged; });
    return found == alerts.end() ? nullptr : &*found;
  };
  const wire::StatusAlert* alert = run == nullptr ? nullptr : first_open(run->alerts);
  return alert == nullptr && selection.page == Page::Runs ? first_open(view.alerts) : alert;
}

std::string_view page_name(Page page) {
  constexpr std::array<std::string_view, 7> kNames = {"runs",   "why",    "nodes",    "logs",
                                                      "events", "alerts", "followers"};
  return kNames[static_cast<std::size_t>(page)];
}

}  // namespace stoker::cli::top
