// A diagnosis as a page that is read in ten seconds: cause, where, evidence, what followed, what to
// do with the exact command.
#pragma once

#include <string>
#include <string_view>

#include "cli/show/console.hpp"
#include "diagnose/cause/diagnosis.hpp"

namespace stoker::cli {

struct DiagnosisScope {
  std::size_t files = 0;
  std::uint64_t lines = 0;
};

// All text of logs is made printable.
std::string diagnosis_page(const diagnose::Diagnosis& diagnosis, const DiagnosisScope& scope,
                           const Console& console);

// "restart without the node": what --json calls restart_excluding.
std::string_view advice_words(diagnose::RunAction action);

}  // namespace stoker::cli
