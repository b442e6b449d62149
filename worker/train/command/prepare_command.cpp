// Two passes over the text at most: one that counts words when a vocabulary is trained, one that
// writes tokens.
#include "worker/train/command/prepare_command.hpp"

#include <fmt/format.h>

#include "common/os/files.hpp"
#include "common/printable.hpp"
#include "common/time.hpp"
#include "worker/train/data/bpe_training.hpp"
#include "worker/train/data/byte_file.hpp"
#include "worker/train/data/indexed_dataset.hpp"
#include "worker/train/data/tokenizer.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

constexpr std::uint64_t kMaxVocabulary = 1'000'000;

// A line on stderr every two seconds.
class Progress {
 public:
  Progress(std::string what, std::uint64_t total) : what_(std::move(what)), total_(total) {}
  void add(std::uint64_t bytes) {
    done_ += bytes;
    const Instant now = monotonic_now();
    if (now - told_ < 2s) return;
    told_ = now;
    const double seconds = to_seconds(now - begin_);
    tell_stderr(fmt::format("prepare: {} {:.1f} of {:.1f} MB, {:.1f} MB/s", what_,
                            static_cast<double>(done_) / 1e6, static_cast<double>(total_) / 1e6,
                            static_cast<double>(done_) / 1e6 / seconds));
  }

 private:
  std::string what_;
  std::uint64_t total_ = 0;
  std::uint64_t done_ = 0;
  Instant begin_ = monotonic_now();
  Instant told_ = begin_;
};

std::optional<std::string> usage_error(const PrepareOptions& o) {
  if (o.texts.empty()) return "no text to prepare; give one or more files";
  if (o.prefix.empty()) return "no output; give -o PREFIX";
  if ((o.bytes ? 1 : 0) + (o.merges ? 1 : 0) + (o.train_vocabulary ? 1 : 0) > 1)
    return "--bytes, --merges and --train-vocabulary exclude each other";
  if (o.train_vocabulary && (*o.train_vocabulary < 258 || *o.train_vocabulary > kMaxVocabulary))
    return fmt::format("--train-vocabulary must be between 258 and {}", kMaxVocabulary);
  return std::nullopt;
}

Result<std::uint64_t> total_size(const std::vector<std::string>& texts) {
  std::uint64_t total = 0;
  for (const std::string& path : texts) {
    STOKER_TRY(file, ByteFile::open(path));
    total += file.size();
  }
  if (total == 0)
    return fail("the text is empty", texts.size() == 1 ? texts[0] : std::string(),
                "give a file with text in it");
  return total;
}

Result<Merges> merges_for(const PrepareOptions& o, std::uint64_t total) {
  if (o.merges) {
    constexpr std::size_t kMaxBytes = 64u << 20;
    STOKER_TRY(text, os::read_file(*o.merges, kMaxBytes));
    return parse_merges(text, *o.merges);
  }
  if (!o.train_vocabulary) return Merges{};
  BpeTrainer trainer;
  Progress progress("counting words,", total);
  DocumentSink sink;
  sink.text = [&](std::string_view text) {
    trainer.add(text);
    return ok();
  };
  sink.end = [] { return ok(); };
  sink.read = [&](std::uint64_t n) { progress.add(n); };
  for (const std::string& path : o.texts)
    STOKER_TRY_STATUS(read_documents(path, o.documents, sink));
  const Merges merges = trainer.train(*o.train_vocabulary, [](std::uint64_t n) {
    tell_stderr(fmt::format("prepare: {} merges", n));
  });
  if (merges.empty())
    return fail("no pair of characters occurs twice: nothing to learn a vocabulary from");
  if (merges.size() + 257 < *o.train_vocabulary)
    tell_stderr(fmt::format("prepare: the text gives a vocabulary of {}, not {}",
                            merges.size() + 257, *o.train_vocabulary));
  return merges;
}

Status write_tokens(const PrepareOptions& o, std::uint64_t total, Tokenizer& tokenizer,
                    IndexedDatasetWriter& writer) {
  Progress progress("tokenizing,", total);
  std::vector<TokenId> ids;
  DocumentSink sink;
  sink.text = [&](std::string_view text) {
    ids.clear();
    tokenizer.encode(text, ids);
    return writer.add(ids);
  };
  sink.end = [&]() -> Status {
    const TokenId end = tokenizer.end_of_document();
    STOKER_TRY_STATUS(writer.add({&end, 1}));
    return writer.end_document();
  };
  sink.read = [&](std::uint64_t n) { progress.add(n); };
  for (const std::string& path : o.texts) {
    const std::uint64_t before = writer.documents();
    STOKER_TRY_STATUS(read_documents(path, o.documents, sink));
    if (writer.documents() == before)
      tell_stderr(fmt::format("prepare: {}: empty, left out", path));
  }
  if (writer.documents() == 0) return fail("the text is empty", {}, "give a file with text in it");
  return ok();
}

}  // namespace

Result<int> run_prepare(const PrepareOptions& o) {
  if (const auto usage = usage_error(o)) {
    tell_stderr(fmt::format("stoker-train prepare: {}", *usage));
    return 2;
  }
  STOKER_TRY(total, total_size(o.texts));
  STOKER_TRY(merges, merges_for(o, total));
  const auto tokenizer = merges.empty() ? make_byte_tokenizer() : make_bpe_tokenizer(merges);
  const auto slash = o.prefix.rfind('/');
  if (slash != std::string::npos && slash > 0)
    STOKER_TRY_STATUS(os::make_directories(o.prefix.substr(0, slash)));
  STOKER_TRY(writer,
             IndexedDatasetWriter::create(o.prefix, token_type_for(tokenizer->vocabulary())));
  STOKER_TRY_STATUS(write_tokens(o, total, *tokenizer, writer));
  STOKER_TRY_STATUS(save_tokenizer(o.prefix, *tokenizer, merges));
  STOKER_TRY_STATUS(writer.commit());
  say(fmt::format("{}: {} documents, {} tokens, vocabulary {}", o.prefix, writer.documents(),
                  writer.tokens(), tokenizer->vocabulary()));
  return 0;
}

}  // namespace stoker::train
