// Text of others on a terminal: what moves the cursor or reorders what is read goes.
#include "common/printable.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/escape_markdown.hpp"
#include "common/last_line.hpp"
#include "common/os/fd.hpp"

using namespace stoker;

TEST_CASE("printable: commands of terminals and bidirectional controls -> spaces and ?") {
  CHECK(printable("a\x1b]0;title\x07z") == "a ]0;title z");
  CHECK(printable("\xc2\x9b"
                  "2J") == "?2J");  // CSI as one character
  CHECK(printable("a\xe2\x80\xae"
                  "b") == "a?b");  // U+202E
  CHECK(printable("gr\xc3\xbc\xc3\x9f\tGott\n") == "gr\xc3\xbc\xc3\x9f Gott ");
  CHECK(printable("\xff\xc3") == "??");
  CHECK(printable_lines("a\x1b\nb\r\n") == "a \nb \n");
}

TEST_CASE("printable: what is not seen -> ?, so that no name looks like another") {
  for (const char* hidden :
       {"\xc2\xad", "\xe1\xa0\x8e", "\xe2\x80\x8b", "\xe2\x80\x8d", "\xe2\x81\xa0", "\xe2\x81\xaf",
        "\xef\xbb\xbf", "\xf3\xa0\x81\xa1", "\xe3\x85\xa4", "\xe1\x85\x9f", "\xcd\x8f",
        "\xef\xb8\x8f", "\xe2\xa0\x80", "\xf3\xa0\x84\x80", "\xf0\x9d\x85\xb3"}) {
    CAPTURE(hidden);
    CHECK(printable(std::string("a") + hidden + "z") == "a?z");
  }
  for (const char* seen : {"\xe2\x80\x90", "\xe2\x80\x93", "\xe2\x82\xac", "\xf0\x9f\x94\xa5"})
    CHECK(printable(seen) == seen);
}

TEST_CASE("printable: longer forms, halves of pairs, beyond Unicode -> ?, byte by byte") {
  CHECK(printable("\xe0\x80\x9b") == "???");       // ESC, too long
  CHECK(printable("\xf0\x80\x80\x9b") == "????");  // likewise
  CHECK(printable("\xed\xa0\x80") == "???");
  CHECK(printable("\xf7\xbf\xbf\xbf") == "????");
  CHECK(printable("\xf4\x90\x80\x80") == "????");
  CHECK(printable("\xed\x9f\xbf\xf4\x8f\xbf\xbd") == "\xed\x9f\xbf\xf4\x8f\xbf\xbd");
}

TEST_CASE("last line: what a program said, not the rule that a launcher draws below it") {
  CHECK(last_line_of("a\nRuntimeError: x\r\n\n") == "RuntimeError: x");
  CHECK(last_line_of("  Exit code:    1\n-----------------------------\n") == "  Exit code:    1");
  CHECK(last_line_of("time : 05:10\n=====\n...\n \n") == "time : 05:10");
  CHECK(last_line_of("\xc3\xbc\n--") == "\xc3\xbc");
  CHECK(last_line_of("\n---\n").empty());
  CHECK(last_line_of("").empty());
}

TEST_CASE("tell_stderr: one cleaned line") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const os::Fd out(ends[0]), in(ends[1]), before(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  REQUIRE(::dup2(in.get(), STDERR_FILENO) == STDERR_FILENO);
  tell_stderr("by eve\x1b[2J\n\xe2\x80\xae!");
  REQUIRE(::dup2(before.get(), STDERR_FILENO) == STDERR_FILENO);
  char text[64];
  const auto got = ::read(out.get(), text, sizeof text);
  CHECK(std::string(text, static_cast<std::size_t>(got)) == "by eve [2J ?!\n");
}

TEST_CASE("escape_markdown: what would begin markup gets a backslash, names and numbers none") {
  for (const char* plain : {"rank_crash on n[01-04]: loss < 3, 5 % & more (twice)", "a~b", "",
                            "exit 137 [oom] at 0x7f_ff", "Größe_2"}) {
    CAPTURE(plain);
    CHECK(escape_markdown(plain) == plain);
  }
  CHECK(escape_markdown("[x](http://e)") == "[x]\\(http://e)");
  CHECK(escape_markdown("[x][y] ![z](u)") == "[x]\\[y] ![z]\\(u)");
  CHECK(escape_markdown("<img src=x> </b> <!-- <?x") == "\\<img src=x> \\</b> \\<!-- \\<?x");
  CHECK(escape_markdown("**b** `c` _i_ ~~s~~") == "\\*\\*b\\*\\* \\`c\\` \\_i\\_ \\~\\~s\\~\\~");
  CHECK(escape_markdown("\\<b> &lt;") == "\\\\\\<b> \\&lt;");
}
