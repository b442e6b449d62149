// A shell script cut into commands and raw words. Nothing is executed and no value is put in: see
// script_reader.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stoker::slurm {

struct HereDocument {
  std::string text;
  bool plain = false;  // its delimiter is quoted: the shell puts no values in
};

// One simple command: what stands between ; & | && || ( ) and the ends of lines.
struct RawCommand {
  std::vector<std::string> words;  // quotes kept; < > >> &> are words of their own
  std::vector<HereDocument> documents;
  bool conditional = false;  // behind && or ||
};
// `endless`: here-documents without an end that were met so far, in all texts of a script; beyond
// 64 no more are looked for, as each is looked for to the text's end.
std::vector<RawCommand> shell_commands(std::string_view text, int& endless);

// The end of the piece of a word that begins at `at`: one character, or a quoted, escaped or
// substituted part with all that is nested in it. `endless`: as above.
std::size_t piece_end(std::string_view text, std::size_t at, int& endless);

// Splits as sbatch splits an #SBATCH line: blanks, quotes, '#' begins a comment.
std::vector<std::string> split_words(std::string_view line);

}  // namespace stoker::slurm
