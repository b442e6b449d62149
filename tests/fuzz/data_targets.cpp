// Training data, which comes from anywhere, and the daemon's own journal after a disk was damaged.
#include <array>
#include <string>
#include <string_view>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "daemon/journal/hash_chain.hpp"
#include "daemon/journal/recovery.hpp"
#include "daemon/journal/schema.hpp"
#include "tests/fuzz/target.hpp"
#include "worker/train/data/indexed_dataset.hpp"
#include "worker/train/data/integer_array.hpp"
#include "worker/train/data/samples_log.hpp"
#include "worker/train/data/tokenizer.hpp"
#include "worker/train/exchange/safetensors.hpp"

namespace stoker::fuzz {
namespace {

// No matter what the index says: what is read lies in the file.
void idx(std::string_view bytes) {
  scratch_file("data.idx", bytes);
  scratch_file("data.bin", std::string(256, '\1'));
  const auto data = train::IndexedDataset::open(scratch_folder() + "/data");
  if (!data) return;
  for (std::uint64_t i = 0; i < std::min<std::uint64_t>(data->sequences(), 64); ++i) {
    const auto length = data->length(i).value();
    must(length >= 0 && length <= 256, "a sequence is no longer than the file");
    std::vector<train::TokenId> tokens(static_cast<std::size_t>(length));
    (void)data->read(i, 0, tokens);
  }
}
void npy(std::string_view bytes) {
  const std::string path = scratch_file("index.npy", bytes);
  for (const std::uint64_t columns : {1u, 2u, 3u}) {
    train::BlockHasher hasher;
    hasher.update(std::as_bytes(std::span(bytes)));
    const auto array =
        train::IndexArray::open(train::ByteFile::open(path).value(), hasher.finish(), columns);
    if (!array) continue;
    must(2 * array->size() <= bytes.size(), "no more than the file holds");
    std::vector<std::int64_t> all(array->size());
    must(array->read(0, all).has_value(), "all of it can be read");
    must(!array->at(array->size()), "and nothing behind it");
  }
}
void tokenizer(std::string_view bytes) {
  scratch_file("t.tokenizer.json", bytes);
  (void)train::load_tokenizer(scratch_folder() + "/t");
  const auto merges = train::parse_merges(bytes, "fuzz");
  if (!merges) return;
  const auto bpe = train::make_bpe_tokenizer(*merges);
  std::vector<train::TokenId> ids;
  bpe->encode("the lazy dog \xff\xc3\xa4 123", ids);
  must(bpe->decode(ids) == "the lazy dog \xff\xc3\xa4 123", "what was encoded comes back");
}
// No matter what the header says: every tensor lies in the file, and the data is covered once.
void safetensors(std::string_view bytes) {
  const auto file = train::SafetensorsFile::open(scratch_file("t.safetensors", bytes));
  if (!file) return;
  std::uint64_t at = 0;
  for (const train::SafeTensor& tensor : file->tensors()) {
    must(tensor.begin == at && tensor.end >= at && tensor.end <= bytes.size(),
         "no hole, no overlap");
    std::string content(tensor.end - tensor.begin, '\0');
    must(file->read(tensor, 0, content.size(), content.data()).has_value(), "all of it is there");
    at = tensor.end;
  }
}
void samples_log(std::string_view bytes) {
  (void)train::read_samples_log(scratch_file("samples.log", bytes));
  each_line(bytes, [](std::string_view body) {
    const auto read = train::parse_samples_line(std::string(body) + hex32(crc32c(body)));
    if (!read) return;
    std::string line = train::format_samples_line(*read);
    line.pop_back();  // its newline
    must(train::parse_samples_line(line).value_or(train::SamplesLine{}) == *read,
         "a line that is written is read as it was");
  });
}

// A good journal of a few rows, made once.
const std::string& good_journal() {
  static const std::string made = [] {
    const std::string path = scratch_folder() + "/good.db";
    auto db = daemon::Database::open(path, daemon::OpenMode::ReadWriteCreate);
    must(db && db->execute("PRAGMA journal_mode=DELETE; PRAGMA page_size=512; VACUUM") &&
             daemon::migrate(*db, daemon::journal_migrations(), path + ".before"),
         "a journal is made");
    auto insert = db->prepare(daemon::kInsertRow);
    std::string before = daemon::first_prev_hash();
    for (std::int64_t seq = 1; seq <= 6; ++seq) {
      daemon::StoredRow row;
      row.seq = seq;
      row.at = row.wall = seq * 1'000'000'000;
      row.run = "tr11";
      row.kind = "tick";
      row.event = R"({"at":1,"body":{"kind":"tick"}})";
      row.decision = "{}";
      row.intents = "[]";
      row.prev_hash = before;
      before = row.hash = daemon::row_hash(row);
      must(insert && daemon::write_stored_row(*insert, row).has_value(), "a row is written");
    }
    insert = fail("done");
    db = fail("closed");
    return os::read_file(path).value_or("");
  }();
  return made;
}
void make_journal() {
  must(!good_journal().empty(), "a journal is there");
}
// Each triple of the input (place, value) changes a byte; then what is left is saved.
void journal_recovery(std::string_view bytes) {
  std::string damaged = good_journal();
  for (std::size_t i = 0; i + 3 <= bytes.size() && i < 3 * 64; i += 3) {
    const auto at = static_cast<std::size_t>(static_cast<unsigned char>(bytes[i]) << 8 |
                                             static_cast<unsigned char>(bytes[i + 1]));
    damaged[at * damaged.size() / 65536] = bytes[i + 2];
  }
  const std::string path = scratch_file("journal.db", damaged);
  const auto report = daemon::recover_journal(path, {}, WallTime(1'700'000'000s));
  if (report) {
    must(!report->message().empty(), "a report says what was lost");
    auto db = daemon::Database::open(path, daemon::OpenMode::ReadOnly);
    must(db && daemon::check_schema(*db), "what was restored is a journal");
    const auto damage = daemon::verify_chain(*db);
    must(damage && damage->structure.empty() && damage->rows.empty(), "its rows are in order");
  }
  const auto left = os::list_directory(scratch_folder()).value_or(std::vector<std::string>{});
  for (const std::string& name : left)
    if (name.starts_with("journal.db")) ::unlink((scratch_folder() + "/" + name).c_str());
}

constexpr std::array kTargets{Target{"idx", idx},
                              Target{"npy", npy},
                              Target{"tokenizer", tokenizer},
                              Target{"samples_log", samples_log},
                              Target{"safetensors", safetensors},
                              Target{"journal_recovery", journal_recovery, make_journal}};

}  // namespace

std::span<const Target> data_targets() {
  return kTargets;
}

}  // namespace stoker::fuzz
