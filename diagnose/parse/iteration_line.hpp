// Iteration lines of training programs, parsed by hand (30 times faster than a regular expression
// with captures). Known: our own core and Megatron-DeepSpeed, old and current Megatron-LM, NeMo,
// DeepSpeed's step lines, InternEvo, the dicts of Hugging Face's Trainer and of JSON loggers,
// torchtitan, nanoGPT and its speed-run, llm.c, IDEFICS, nanotron, MLPerf's events, the progress
// bars of Lightning and NeMo (Composer's records, over several lines: parse_file.hpp). Anything a
// launcher puts in front is no matter. A start is not progress: only lines that a program prints
// after the step are known here. To add a form: one function in iteration_line.cpp and its line in
// the table at the end of that file, with real lines in tests/diagnose.
#pragma once

#include <optional>
#include <string_view>

#include "diagnose/parse/metrics.hpp"

namespace stoker::diagnose {

// `line` without its newline. Empty: no iteration line. A line that does not end its record (cut by
// copy and paste) gives what it has; parse_file.hpp joins such lines.
std::optional<IterationMetrics> parse_iteration_line(std::string_view line);

// What its form is called: "fields between bars"; "" where parse_iteration_line() finds nothing.
std::string_view iteration_form(std::string_view line);

// "validation loss at iteration 1000 | lm loss value: … | lm loss PPL: … |" with any name before
// it, nanoGPT's "step 1000: train loss …, val loss …", torchtitan's "validate step", eval dicts.
std::optional<ValidationMetrics> parse_validation_line(std::string_view line);

// True for a "iteration N/ M | key: value | …" line whose last field is not closed by '|': the
// record goes on in the next line.
bool is_unfinished_record(std::string_view line);

}  // namespace stoker::diagnose
