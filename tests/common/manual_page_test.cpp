// Manual pages: what troff would take for its own, footers as sections.
#include "common/manual_page.hpp"

#include <doctest/doctest.h>

using namespace stoker;

TEST_CASE("manual page: text -> dashes, backslashes and requests are escaped") {
  CHECK(troff_text("--run a\\b") == "\\-\\-run a\\eb");
  CHECK(troff_text(".TH\n'x") == "\\&.TH\n\\&'x");
  CHECK(manual_item("--to N", "where") == ".TP\n.B \\-\\-to N\nwhere\n");
}

TEST_CASE("manual page: a footer -> headings, examples as they stand, the rest flows") {
  CHECK(manual_notes("Examples:\n  a\n  b\nExit codes: 0 done,\n  1 failed") ==
        ".SH EXAMPLES\n.nf\na\nb\n.fi\n.SH EXIT STATUS\n0 done,\n1 failed\n");
  CHECK(manual_notes("Example: a --b", false) == ".PP\n.nf\na \\-\\-b\n.fi\n");
  CHECK(manual_notes("").empty());
}
