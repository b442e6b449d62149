// RUN.yaml as the command line reads it: the schema with this build's sinks and this machine's
// judgement, and how its errors are shown.
#pragma once

#include <string>

#include "cli/command.hpp"
#include "configs/schema/run_checks.hpp"
#include "core/engine/ports.hpp"

namespace stoker::cli {

Result<configs::CheckedRun> read_run_file(const Context& context, const std::string& path);

// The same of a text that is not written yet. `path`: absolute, where it will be.
configs::CheckedRun check_run_text(const Context& context, const std::string& text,
                                   const std::string& path);

// The alert sinks that this build knows, for the schema.
std::vector<configs::SinkKind> known_sink_kinds();

// "" when RE2 takes the expression.
std::string regex_error(const std::string& expression);

// Every error as "file:line:col: error: …" on standard error. Returns kUsage, or kDone when there
// is no error.
int show_errors(const Console& console, const configs::Diagnostics& errors);

// The first submission that a run would make: what `run --dry-run` shows and `doctor RUN.yaml`
// tries out.
core::SubmitRequest first_submission(const core::RunPolicy& policy);

}  // namespace stoker::cli
