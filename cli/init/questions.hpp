// The questions of `stoker init`, when it is given no script: on a terminal, or with the answers
// piped in, a line each. An empty line takes the default. Where the input ends, a question with a
// default takes it; one without is an error that says what to do.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/init/detect.hpp"
#include "cli/show/console.hpp"

namespace stoker::cli::init {

class Questions {
 public:
  // The next line of the input; empty: it has ended.
  using ReadLine = std::function<std::optional<std::string>()>;
  // "" when the answer is good, else what is wrong with it.
  using Judge = std::function<std::string(const std::string& answer)>;

  // `asked_again`: a person is there to correct a wrong answer.
  Questions(const Console& console, ReadLine read, bool asked_again)
      : console_(console), read_(std::move(read)), asked_again_(asked_again) {}

  // `fallback`: the default; "" = there is no default. Errors: no answer, or a wrong one where no
  // person can correct it.
  Result<std::string> ask(const std::string& question, const std::string& fallback,
                          const Judge& judge);

 private:
  const Console& console_;
  ReadLine read_;
  bool asked_again_;
};

// Standard input, a line at most 64 KiB long.
Questions::ReadLine standard_input();

// Asks what starts the training; a candidate of host.folder is the default.
Result<Draft> ask_for_training(Questions& questions, const Host& host);
// Asks about each value that is assumed.
Status ask_for_values(Questions& questions, const Host& host, Draft& draft);

}  // namespace stoker::cli::init
