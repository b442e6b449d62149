// A reader that is killed with -9 a hundred times, while its log grows, is renamed and truncated by
// copy: with the cursor stored together with the lines, every line arrives exactly once.
#include <csignal>
#include <random>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>

#include "common/hash.hpp"
#include "common/json.hpp"
#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "watch/tail.hpp"

using namespace stoker;
using namespace stoker::watch;
using stoker::testing::Folder;

namespace {

// A journal in small: one record = lines + cursor, one write(2), checksummed; a torn last record
// never happened.
struct Record {
  std::vector<std::string> lines;
  core::Cursor cursor;
  STOKER_FIELDS(Record, lines, cursor)
};

struct JournalRead {
  std::vector<Record> records;
  bool torn = false;     // a record at the end is not whole
  std::size_t good = 0;  // bytes of whole records
};

// Changes nothing: a reader may be writing.
JournalRead read_journal(const std::string& path) {
  JournalRead read;
  const auto text = os::read_file(path);
  if (!text) return read;
  while (read.good < text->size()) {
    const auto end = text->find('\n', read.good);
    if (end == std::string::npos || end - read.good < 9) break;
    const std::string json = text->substr(read.good, end - read.good - 9);
    if (text->substr(end - 8, 8) != hex32(crc32c(json))) break;
    read.records.push_back(*from_json_text<Record>(json, path));
    read.good = end + 1;
  }
  read.torn = read.good < text->size();
  return read;
}

[[noreturn]] void run_reader(const Folder& folder) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that ran out of time leaves no process behind
  const auto [records, torn, good] = read_journal(folder / "journal");
  if (torn) std::filesystem::resize_file(folder / "journal", good);  // the one before was killed
  TailOptions options;
  options.rotate_grace = 20ms;
  options.bytes_a_poll = 2000;
  LineTail tail(folder / "log", options,
                records.empty() ? std::nullopt : std::optional(records.back().cursor));
  while (true) {
    Record record;
    for (auto& line : tail.poll(monotonic_now()).lines) {
      record.lines.push_back(line.text);
      record.cursor = line.cursor;
    }
    if (!record.lines.empty()) {
      const std::string json = to_json_text(record);
      if (!os::append_file(folder / "journal", json + " " + hex32(crc32c(json)) + "\n",
                           os::Durability::Cached))
        ::_exit(1);
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

// A reading process; killed with -9 at the latest when this ends.
class Reader {
 public:
  explicit Reader(const Folder& folder) : folder_(folder) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { kill(); }

  void start() {
    kill();
    child_ = ::fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) run_reader(folder_);
  }
  void kill() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    int status = 0;
    CHECK(::waitpid(child_, &status, 0) == child_);
    child_ = -1;
  }

 private:
  const Folder& folder_;
  pid_t child_ = -1;
};

std::vector<std::string> lines_read(const Folder& folder) {
  std::vector<std::string> lines;
  for (const auto& record : read_journal(folder / "journal").records)
    lines.insert(lines.end(), record.lines.begin(), record.lines.end());
  return lines;
}

// Until the reader has read that many lines; the limit of a test ends one that never does.
std::vector<std::string> wait_for_lines(const Folder& folder, unsigned count) {
  std::vector<std::string> lines = lines_read(folder);
  while (lines.size() < count) {
    std::this_thread::sleep_for(10ms);
    lines = lines_read(folder);
  }
  return lines;
}

}  // namespace

TEST_CASE("tail: a hundred kill -9 of the reader and of lines in the making -> each line once") {
  const Folder folder;
  std::mt19937 random(7);  // NOLINT: the same story each time
  const auto any = [&random](unsigned n) { return random() % n; };
  Reader reader(folder);
  reader.start();
  unsigned written = 0;
  folder.append("log", "line " + std::to_string(written++) + "\n");
  REQUIRE(wait_for_lines(folder, 1).size() == 1);  // so there is a cursor when it is rotated first
  for (int kills = 0; kills < 100; ++kills) {
    for (unsigned i = 0; i < 20 + any(20); ++i) {
      const std::string line =
          "line " + std::to_string(written++) + " " + std::string(any(300), 'x') + "\n";
      const std::size_t cut = any(static_cast<unsigned>(line.size()));
      folder.append("log", line.substr(0, cut));  // a writer that is slow, or dies and comes back
      folder.append("log", line.substr(cut));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(any(4000)));
    reader.kill();
    if (kills % 10 == 9) {  // rotated while unread
      std::filesystem::rename(folder / "log", folder / ("log." + std::to_string(kills)));
      folder.append("log", "line " + std::to_string(written++) + "\n");
    }
    reader.start();  // it seldom comes to the end of one file before the next rotation
  }
  const std::vector<std::string> lines = wait_for_lines(folder, written);
  reader.kill();
  REQUIRE(lines.size() == written);
  for (unsigned i = 0; i < written; ++i) REQUIRE(lines[i].starts_with("line " + std::to_string(i)));
}
