// The screens of `stoker top`, against the files of tests/cli/top (STOKER_REWRITE=1 writes them),
// and what holds for every size.
#include "cli/top/layout.hpp"
#include "cli/top/run_order.hpp"
#include "top_view.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;
using cli::top::Page;
using cli::top::Selection;
using cli::top::View;

namespace {

const std::string kScreens = STOKER_SOURCE_DIR "/tests/cli/top/";

void check_screen(const std::string& name, const View& view, const Selection& selection, int rows,
                  int columns) {
  const std::string screen = top::layout(view, selection, rows, columns).cells.text();
  const std::string path = fmt::format("{}{}_{}x{}.txt", kScreens, name, columns, rows);
  if (std::getenv("STOKER_REWRITE") != nullptr) {
    std::filesystem::create_directories(kScreens);
    std::ofstream(path, std::ios::binary) << screen;
  }
  CHECK_MESSAGE(os::read_file(path).value_or("(the file is missing)") == screen, path);
}

Selection on(Page page, const std::string& run = "hello") {
  Selection selection;
  selection.page = page;
  selection.run = run;
  return selection;
}

}  // namespace

TEST_CASE("top: the first screen -> worst first, what does not fit is left out by worth") {
  for (const auto& [rows, columns] : {std::pair{15, 60}, {24, 80}, {50, 200}})
    check_screen("runs", three_runs(), {}, rows, columns);
}

TEST_CASE("top: an alert of the chosen run -> red where it is critical, yellow as a warning") {
  View view = three_runs();
  const Selection selection = on(Page::Runs, "tr11-176B");
  const auto shade_of = [&](const std::string& words) {
    const top::Cells cells = top::layout(view, selection, 40, 120).cells;
    for (int row = 0; row < cells.rows(); ++row) {
      std::string text;
      for (int column = 0; column < cells.columns(); ++column) text += cells.at(row, column).text;
      if (text.find(words) != std::string::npos) return cells.at(row, 2).shade;
    }
    return top::Shade::Dim;
  };
  CHECK(shade_of("alert       critical ") == top::Shade::Bad);
  CHECK(shade_of("alert       warning ") == top::Shade::Warn);
  CHECK(shade_of("budget      ") == top::Shade::Plain);
}

TEST_CASE("top: every page of a run -> its screen") {
  for (const Page page : {Page::Why, Page::Nodes, Page::Logs, Page::Events, Page::Followers})
    check_screen(std::string(top::page_name(page)), three_runs(), on(page), 24, 80);
  View view = three_runs();
  view.detail.run = "tr11-176B";
  check_screen("alerts", view, on(Page::Alerts, "tr11-176B"), 24, 80);
}

TEST_CASE("top: 50 runs and 1,000 nodes -> the table scrolls, the map is one letter a node") {
  Selection selection;
  selection.run = "sweep-46";
  check_screen("many_runs", large_site(), selection, 24, 80);
  check_screen("many_nodes", large_site(), on(Page::Nodes), 50, 120);
}

TEST_CASE("top: no daemon -> a banner with the command that starts one") {
  View view = three_runs();
  view.reach = Reach::Away;
  view.now = kTopNow + 20s;
  check_screen("stale", view, {}, 15, 60);
  view.reach = Reach::Silent;
  view.silent = 3s;
  const std::string screen = top::layout(view, {}, 24, 120).cells.text();
  CHECK(screen.find("STALE: the daemon has not answered for 3.0s") != std::string::npos);
}

TEST_CASE(
    "top: a site alert, a failing sink, a document that cannot be read -> seen on each page") {
  View view = three_runs();
  view.alerts.push_back({"site/blind/1", "critical", "scheduler_blind", "squeue gave no answer", "",
                         "", "2026-05-01T04:00:00Z", false});
  view.sinks.push_back({"hello", "page", "pagerduty", "2026-05-01T04:00:00Z", "HTTP 403", 3, {}});
  view.unreadable = {"/runs/x/status.json: unexpected end of input"};
  for (const Page page : {Page::Runs, Page::Why, Page::Logs}) {
    const std::string screen = top::layout(view, on(page), 24, 100).cells.text();
    for (const char* part : {"squeue gave no answer", "HTTP 403", "unexpected end of input"})
      CHECK_MESSAGE(screen.find(part) != std::string::npos, part);
  }
}

TEST_CASE("top: a question -> the dry run's words and y/N below the page, whole") {
  Selection selection;
  selection.question = top::Question{{"save", "hello"}, "would: make a checkpoint at once"};
  check_screen("question", three_runs(), selection, 15, 60);
  selection.question->dry_run = std::string(300, 'x');
  const std::string small = top::layout(three_runs(), selection, 5, 20).cells.text();
  CHECK(small.find("do it? y/N") != std::string::npos);
  selection = {};
  selection.help = true;
  check_screen("help", three_runs(), selection, 15, 60);
}

TEST_CASE("top: any size -> as many rows and columns as asked for, the worst run is seen") {
  const std::vector<Page> pages = {Page::Runs,   Page::Why,    Page::Nodes,    Page::Logs,
                                   Page::Events, Page::Alerts, Page::Followers};
  for (const Page page : pages)
    for (int rows = 1; rows <= 12; ++rows)
      for (int columns = 1; columns <= 40; ++columns) {
        const auto frame = top::layout(large_site(), on(page), rows, columns);
        REQUIRE(frame.cells.rows() == rows);
        REQUIRE(frame.cells.columns() == columns);
      }
  check_screen("ten_columns", three_runs(), {}, 6, 10);
}

TEST_CASE("top: nothing yet, a filter that fits nothing -> a sentence") {
  View empty;
  CHECK(top::layout(empty, {}, 10, 80).cells.text().find("no runs; `stoker run RUN.yaml`") !=
        std::string::npos);
  Selection selection;
  selection.filter = "zzz";
  CHECK(top::layout(three_runs(), selection, 10, 80).cells.text().find("no run matches \"zzz\"") !=
        std::string::npos);
  selection.filter = "HELD";
  const std::string screen = top::layout(three_runs(), selection, 24, 80).cells.text();
  CHECK(screen.find("tr11-176B") != std::string::npos);
  CHECK(screen.find("bloomz") == std::string::npos);
}

TEST_CASE("top: hostile text -> no control reaches a cell, wide characters keep their width") {
  View view = three_runs();
  view.runs[0].run = "\033]0;owned\007\xe2\x80\xae evil";
  view.runs[0].reason = "\xc2\x9b\x31m\n\t\xff";
  view.detail.run = view.runs[0].run;
  view.detail.log = {"\033[2J \xe2\x80\xae", "\xed\xa0\x80 surrogate", "\xf4\x90\x80\x80"};
  view.detail.trouble = {"\033[31m"};
  view.runs[0].followers[0].name = "\033]0;x\007";
  view.runs[0].followers[1].last->text = "\033[2J\xe2\x80\xae";
  for (const Page page :
       {Page::Runs, Page::Why, Page::Nodes, Page::Logs, Page::Alerts, Page::Followers}) {
    const auto frame = top::layout(view, on(page, view.runs[0].run), 24, 80);
    for (const char c : frame.cells.text()) {
      const auto byte = static_cast<unsigned char>(c);
      REQUIRE((c == '\n' || byte >= 0x20));
      REQUIRE(byte != 0x7F);
    }
    CHECK(frame.cells.text().find("\xe2\x80\xae") == std::string::npos);
  }
  top::Cells cells(1, 6);
  CHECK(cells.put(0, 0, "a\u4f60\u597d\u4f60") == 5);
  CHECK(cells.text() == "a\u4f60\u597d\n");
  CHECK(cells.at(0, 2).text.empty());
  CHECK(top::width_of("e\u0301\u4f60") == 3);
  CHECK(top::fit("\u4f60\u597d", 3) == "\u4f60~");
  CHECK(top::fit("abc", 5) == "abc  ");
  CHECK(top::wrap("one two three", 8) == std::vector<std::string>{"one two", "three"});
  CHECK(top::wrap("abcdefgh", 3) == std::vector<std::string>{"abc", "def", "gh"});
  CHECK(top::wrap("", 3) == std::vector<std::string>{""});
}

TEST_CASE("top: order -> alerts, held, suspect, recovering, degraded, queued, training, finished") {
  View view;
  for (const char* state : {"finished", "training", "queued", "recovering", "suspect", "held"})
    view.runs.push_back(named_run(state, state));
  view.runs.push_back(named_run("alarmed", "training"));
  view.runs.back().alerts.push_back({"a", "critical", "k", "s", "", "", "", false});
  view.runs.push_back(named_run("seen", "training"));
  view.runs.back().alerts.push_back({"a", "critical", "k", "s", "", "", "", true});
  view.runs.push_back(named_run("degraded", "training"));
  view.runs.back().conditions = {"degraded"};
  std::vector<std::string> names;
  for (const auto* run : top::ordered(view, "")) names.push_back(run->run);
  CHECK(names == std::vector<std::string>{"alarmed", "held", "suspect", "recovering", "degraded",
                                          "queued", "seen", "training", "finished"});
}

TEST_CASE(
    "top: docs/operations.md -> has the first screen as it is now (STOKER_REWRITE=1 renews it)") {
  const std::string path = STOKER_SOURCE_DIR "/docs/operations.md";
  std::string page = os::read_file(path).value_or("");
  const std::string mark = "<!-- screen of stoker top:";
  const std::size_t begin = page.find("```\n", page.find(mark)) + 4;
  const std::size_t end = page.find("```\n", begin);
  REQUIRE(page.find(mark) != std::string::npos);
  REQUIRE(end != std::string::npos);
  const std::string screen = top::layout(three_runs(), {}, 20, 80).cells.text();
  if (std::getenv("STOKER_REWRITE") != nullptr) {
    page.replace(begin, end - begin, screen);
    std::ofstream(path, std::ios::binary) << page;
  }
  CHECK(page.substr(page.find("```\n", page.find(mark)) + 4).starts_with(screen + "```\n"));
}
