// The keys of `stoker top` without a terminal.
#include "cli/top/layout.hpp"
#include "top_view.hpp"

using namespace stoker;
using namespace stoker::cli;
using namespace stoker::cli::test;
using cli::top::Key;
using cli::top::KeyKind;
using cli::top::Page;
using cli::top::WishKind;

namespace {

// A person at the screen of 80x24.
struct Person {
  top::View view = three_runs();
  top::Selection selection;

  top::Wish key(KeyKind kind, const std::string& text = "") {
    const auto frame = top::layout(view, selection, 24, 80);
    return top::press(selection, {kind, text}, view, frame.extent);
  }
  top::Wish type(const std::string& letters) {
    top::Wish wish;
    for (const char letter : letters) wish = key(KeyKind::Text, std::string(1, letter));
    return wish;
  }
  std::string chosen() {
    const auto* run = top::chosen_run(view, selection);
    return run == nullptr ? "" : run->run;
  }
  // What the first screen's line of the cursor and everything else says.
  std::string screen() { return top::layout(view, selection, 24, 80).cells.text(); }
};

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("top keys: arrows and letters -> the cursor moves over the runs, and stays on its run") {
  Person person;
  CHECK(person.chosen() == "tr11-176B");
  person.key(KeyKind::Down);
  CHECK(person.chosen() == "bloomz");
  person.type("jjj");
  CHECK(person.chosen() == "hello");
  person.view.runs[0].state = "held";  // it moves up; the cursor goes with it
  CHECK(person.chosen() == "hello");
  person.type("g");
  CHECK(person.chosen() == "tr11-176B");
  person.key(KeyKind::End);
  CHECK(person.chosen() == "bloomz");
  person.key(KeyKind::PageUp);
  person.key(KeyKind::Up);
  CHECK(person.chosen() == "tr11-176B");
}

TEST_CASE("top keys: Enter, Tab, digits, Esc -> pages of the run and back; q quits at the first") {
  Person person;
  CHECK(person.key(KeyKind::Escape).kind == WishKind::Nothing);  // half of an unknown key
  person.key(KeyKind::Enter);
  CHECK(person.selection.page == Page::Why);
  CHECK(person.selection.run == "tr11-176B");
  person.key(KeyKind::Tab);
  CHECK(person.selection.page == Page::Nodes);
  person.key(KeyKind::Left);
  person.key(KeyKind::BackTab);
  CHECK(person.selection.page == Page::Followers);
  person.type("5");
  CHECK(person.selection.page == Page::Alerts);
  person.type("6");
  CHECK(person.selection.page == Page::Followers);
  person.type("7");
  CHECK(person.selection.page == Page::Followers);
  person.type("3");
  CHECK(person.selection.page == Page::Logs);
  CHECK(person.key(KeyKind::Escape).kind == WishKind::Nothing);
  CHECK(person.selection.page == Page::Runs);
  CHECK(person.key(KeyKind::Tab).kind == WishKind::Nothing);
  CHECK(person.selection.page == Page::Runs);
  CHECK(person.type("q").kind == WishKind::Quit);
  person.selection.page = Page::Logs;
  CHECK(person.type("q").kind == WishKind::Nothing);
  CHECK(person.key(KeyKind::Quit).kind == WishKind::Quit);
}

TEST_CASE("top keys: s, p, A -> a dry run first, a question, and the action only after y") {
  Person person;
  person.selection.run = "hello";
  auto wish = person.type("s");
  CHECK(wish.kind == WishKind::Ask);
  CHECK(wish.words == Words{"save", "hello"});
  top::take_dry_run(person.selection, wish.words, true, "would: save");
  CHECK(person.screen().find("save hello: would: save") != std::string::npos);
  CHECK(person.type("s").kind == WishKind::Nothing);  // neither yes nor no: the question stays
  CHECK(person.key(KeyKind::Down).kind == WishKind::Nothing);
  REQUIRE(person.selection.question.has_value());
  wish = person.type("y");
  CHECK(wish.kind == WishKind::Do);
  CHECK(wish.words == Words{"save", "hello"});
  CHECK_FALSE(person.selection.question.has_value());
  CHECK(person.type("p").words == Words{"pause", "hello"});
  person.view.runs[0].conditions = {"paused"};
  CHECK(person.type("p").words == Words{"resume", "hello"});
  for (const KeyKind no : {KeyKind::Enter, KeyKind::Escape}) {
    top::take_dry_run(person.selection, {"pause", "hello"}, true, "would: pause");
    CHECK(person.key(no).kind == WishKind::Nothing);
    CHECK_FALSE(person.selection.question.has_value());
    CHECK(person.selection.message == "nothing was done");
  }
  top::take_dry_run(person.selection, {"save", "hello"}, false, "hello is finished");
  CHECK_FALSE(person.selection.question.has_value());
  CHECK(person.screen().find("hello is finished") != std::string::npos);
  CHECK(person.type("y").kind == WishKind::Nothing);
}

TEST_CASE("top keys: A -> the first open alert, or the chosen one, or the site's") {
  Person person;
  CHECK(person.type("A").words == Words{"ack", "tr11-176B/crash_loop/412"});
  person.key(KeyKind::Enter);
  person.type("5j");
  CHECK(person.type("A").kind == WishKind::Nothing);  // the second one is acknowledged
  CHECK(person.selection.message.find("no alert to acknowledge") != std::string::npos);
  person.type("k");
  CHECK(person.type("A").words == Words{"ack", "tr11-176B/crash_loop/412"});
  person.key(KeyKind::Escape);
  person.selection.run = "hello";
  CHECK(person.type("A").kind == WishKind::Nothing);
  person.view.alerts.push_back({"site/blind/1", "critical", "blind", "s", "", "", "", false});
  CHECK(person.type("A").words == Words{"ack", "site/blind/1"});
  person.view.runs.clear();
  CHECK(person.type("s").kind == WishKind::Nothing);
}

TEST_CASE("top keys: / -> what is typed filters at once; Enter keeps it, Esc drops it") {
  Person person;
  person.type("/hq");
  CHECK(person.selection.typing);
  CHECK(person.selection.filter == "hq");  // q is a letter while a filter is typed
  person.key(KeyKind::Backspace);
  CHECK(person.screen().find("/h_") != std::string::npos);
  person.type("ell");
  person.key(KeyKind::Enter);
  CHECK(person.chosen() == "hello");
  CHECK(person.key(KeyKind::Escape).kind == WishKind::Nothing);
  CHECK(person.selection.filter.empty());
  person.key(KeyKind::Text, "/");
  person.key(KeyKind::Text, "\u00fc");
  person.key(KeyKind::Backspace);
  CHECK(person.selection.filter.empty());
  for (int i = 0; i < 300; ++i) person.type("x");
  CHECK(person.selection.filter.size() == 100);
  person.key(KeyKind::Escape);
  person.selection.run = "hello";
  person.key(KeyKind::Enter);
  person.type("/signal");
  CHECK(person.screen().find("recovering -> training") == std::string::npos);
  CHECK(person.screen().find("training -> recovering") != std::string::npos);
}

TEST_CASE("top keys: scrolling -> bounded by what there is; the log from its end") {
  Person person;
  person.selection.run = "hello";
  person.key(KeyKind::Enter);
  person.type("3");
  CHECK(person.screen().find("12500/") != std::string::npos);
  person.key(KeyKind::PageUp);
  CHECK(person.screen().find("12500/") == std::string::npos);
  person.type("ggkkk");
  CHECK(person.screen().find("12461/") != std::string::npos);
  person.type("G");
  CHECK(person.screen().find("12500/") != std::string::npos);
  CHECK(person.selection.scroll == 0);
  person.type("?");
  CHECK(person.screen().find("acknowledge the alert") != std::string::npos);
  CHECK(person.type("q").kind == WishKind::Nothing);
  CHECK_FALSE(person.selection.help);
}
