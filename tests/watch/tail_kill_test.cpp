// A reader that is killed with -9 a hundred times, while its log grows, is renamed and truncated by
// copy: with the cursor stored together with the lines, every line arrives exactly once.
#include <csignal>
#include <random>
#include <sys/wait.h>
#include <thread>

#include "common/hash.hpp"
#include "common/json.hpp"
#include "common/os/files.hpp"
#include "tests/watch/folder.hpp"
#include "watch/tail.hpp"

using namespace stoker;
using namespace stoker::watch;
using stoker::watch::testing::Folder;

namespace {

// A journal in small: one record = lines + cursor, one write(2), checksummed; a torn last record
// never happened.
struct Record {
  std::vector<std::string> lines;
  core::Cursor cursor;
  STOKER_FIELDS(Record, lines, cursor)
};

std::vector<Record> read_journal(const std::string& path) {
  std::vector<Record> records;
  const auto text = os::read_file(path);
  if (!text) return records;
  std::size_t good = 0;
  for (std::size_t from = 0; from < text->size();) {
    const auto end = text->find('\n', from);
    if (end == std::string::npos || end - from < 9) break;
    const std::string json = text->substr(from, end - from - 9);
    if (text->substr(end - 8, 8) != hex32(crc32c(json))) break;
    records.push_back(*from_json_text<Record>(json, path));
    from = good = end + 1;
  }
  if (good < text->size()) std::filesystem::resize_file(path, good);
  return records;
}

[[noreturn]] void run_reader(const Folder& folder) {
  const auto records = read_journal(folder / "journal");
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

pid_t start_reader(const Folder& folder) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) run_reader(folder);
  return child;
}

void kill_reader(pid_t reader) {
  ::kill(reader, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(reader, &status, 0) == reader);
}

std::vector<std::string> lines_read(const Folder& folder) {
  std::vector<std::string> lines;
  const auto text = os::read_file(folder / "journal");
  if (!text || text->empty() || text->back() != '\n') return lines;
  for (const auto& record : read_journal(folder / "journal"))
    lines.insert(lines.end(), record.lines.begin(), record.lines.end());
  return lines;
}

// Until the reader has read that many lines, or is too late.
std::vector<std::string> wait_for_lines(const Folder& folder, unsigned count) {
  std::vector<std::string> lines = lines_read(folder);
  for (int wait = 0; wait < 1000 && lines.size() < count; ++wait) {
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
  pid_t reader = start_reader(folder);
  unsigned written = 0;
  for (int kills = 0; kills < 100; ++kills) {
    for (unsigned i = 0; i < 20 + any(20); ++i) {
      const std::string line =
          "line " + std::to_string(written++) + " " + std::string(any(300), 'x') + "\n";
      const std::size_t cut = any(static_cast<unsigned>(line.size()));
      folder.append("log", line.substr(0, cut));  // a writer that is slow, or dies and comes back
      folder.append("log", line.substr(cut));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(any(4000)));
    kill_reader(reader);
    if (kills % 10 == 9) {  // rotated while nobody reads
      std::filesystem::rename(folder / "log", folder / ("log." + std::to_string(kills)));
      folder.append("log", "line " + std::to_string(written++) + "\n");
    }
    reader = start_reader(folder);
    if (kills % 10 == 9)  // a second rotation must not overtake the first one's reader
      REQUIRE(wait_for_lines(folder, written).size() == written);
  }
  const std::vector<std::string> lines = wait_for_lines(folder, written);
  kill_reader(reader);
  REQUIRE(lines.size() == written);
  for (unsigned i = 0; i < written; ++i) REQUIRE(lines[i].starts_with("line " + std::to_string(i)));
}
