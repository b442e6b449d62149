// What the text of a Python training says plainly: where it saves, by which signal, with what it
// spreads. A line that would have to be run to be understood says nothing.
#pragma once

#include <string>
#include <string_view>

namespace stoker::cli::init {

struct SaidByText {
  std::string value;  // "" = it does not say
  std::size_t line = 0;
};

struct PythonText {
  SaidByText checkpoints;  // a folder, as written
  SaidByText save_signal;  // "USR1"
  SaidByText spreads;      // the word by which it uses several processes: "init_process_group"
};

PythonText read_python(std::string_view text);

}  // namespace stoker::cli::init
