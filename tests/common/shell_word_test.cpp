// Words of a command line, as a shell reads them back.
#include "common/shell_word.hpp"

#include <doctest/doctest.h>

#include "common/os/process.hpp"

using namespace stoker;

TEST_CASE("shell_word: plain text stays bare, everything else is quoted") {
  CHECK(shell_word("n[01-03]") == "'n[01-03]'");
  CHECK(shell_word("/gpfs/run-1/RUN.yaml") == "/gpfs/run-1/RUN.yaml");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("~alice") == "'~alice'");
}

TEST_CASE("shell_word: a shell reads back every byte, and executes none") {
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  for (const std::string& text :
       {all, std::string("$(touch /nowhere/x)"), std::string("a b;c"), std::string("\\'\"")}) {
    os::SpawnOptions options;
    options.argv = {"/bin/sh", "-c", "printf %s " + shell_word(text)};
    const auto answer = os::run_command(options, 10s, 1 << 16);
    REQUIRE(answer);
    CHECK(answer->status.ok());
    CHECK(answer->out == text);
  }
}
