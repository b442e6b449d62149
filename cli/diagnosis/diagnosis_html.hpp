// The page of `stoker diagnose --html`: one file without scripts or links to elsewhere. All text of
// logs is escaped.
#pragma once

#include <string>
#include <vector>

#include "diagnose/cause/diagnosis.hpp"

namespace stoker::cli {

// At most 2,000 logs are drawn: those with findings first.
std::string diagnosis_html(const diagnose::Diagnosis& diagnosis,
                           const std::vector<diagnose::ScannedLog>& logs);

}  // namespace stoker::cli
