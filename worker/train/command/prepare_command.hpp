// `stoker-train prepare TEXT... -o PREFIX [--bytes | --merges FILE | --train-vocabulary N]
// [--documents KIND]`: tokenizes text into PREFIX.bin and PREFIX.idx (Megatron's format), and keeps
// the tokenizer beside them (PREFIX.tokenizer.json, for BPE also PREFIX.merges.txt). main.cpp fills
// the options and calls run_prepare.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "worker/train/data/text_documents.hpp"

namespace stoker::train {

struct PrepareOptions {
  std::vector<std::string> texts;
  std::string prefix;                             // -o
  bool bytes = false;                             // --bytes; also when none of the three is given
  std::optional<std::string> merges;              // --merges FILE
  std::optional<std::uint64_t> train_vocabulary;  // --train-vocabulary N: 257 or more
  DocumentKind documents = DocumentKind::File;    // --documents file|paragraph|line|jsonl
};

// The exit status: 0, or 2 with the usage error on stderr. An Error is one line for stderr, and
// exit status 1. Progress goes to stderr, the summary to stdout. Nothing is put in place unless all
// of it was written.
Result<int> run_prepare(const PrepareOptions& options);

}  // namespace stoker::train
