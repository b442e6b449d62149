// LineTail on real files, one case a trap.
#include "watch/tail.hpp"

#include <atomic>
#include <fstream>
#include <sys/stat.h>
#include <thread>

#include "common/os/files.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::watch;
using stoker::testing::Folder;

namespace {

std::vector<std::string> texts(const TailRead& read) {
  std::vector<std::string> out;
  for (const auto& line : read.lines) out.push_back(line.text);
  return out;
}
using Texts = std::vector<std::string>;

Instant at(Duration d) {
  return Instant(d);
}

// Of a new log of this text, read once.
core::Cursor behind_first_line(const Folder& folder, const std::string& text) {
  folder.append("log", text);
  return LineTail(folder / "log").poll(at(0s)).lines.at(0).cursor;
}

}  // namespace

TEST_CASE("tail: lines as they grow -> whole lines only, the partial one is held") {
  const Folder folder;
  LineTail tail(folder / "log");
  CHECK(tail.poll(at(0s)).missing);
  folder.append("log", "one\ntwo\nthr");
  CHECK(texts(tail.poll(at(1s))) == Texts{"one", "two"});
  CHECK(tail.poll(at(2s)).lines.empty());
  folder.append("log", "ee\n");
  const auto read = tail.poll(at(3s));
  CHECK(texts(read) == Texts{"three"});
  CHECK(read.lines[0].number == 3);
  CHECK(read.lines[0].cursor.offset == 14);
}

TEST_CASE("tail: carriage returns -> progress bars are lines, \\r\\n is one end") {
  const Folder folder;
  folder.append("log", "10%\r20%\r30%\ndos\r\nlast\r");
  LineTail tail(folder / "log");
  CHECK(texts(tail.poll(at(0s))) == Texts{"10%", "20%", "30%", "dos", "last"});
  LineTail resumed(folder / "log", {}, tail.cursor());
  folder.append("log", "\nnext\n");
  for (LineTail* reader : {&tail, &resumed}) {
    const auto read = reader->poll(at(1s));
    CHECK(texts(read) == Texts{"next"});
    CHECK(read.lines[0].number == 4);
  }
}

TEST_CASE("tail: a file that grows while it is read -> each cursor finds its file again") {
  const Folder folder;
  for (int file = 0; file < 300; ++file) {
    const std::string path = folder / ("log" + std::to_string(file));
    std::atomic<bool> reads = false;
    std::thread writer([&] {  // a KiB in small pieces, the most that says which file it is
      while (!reads) std::this_thread::yield();
      std::ofstream log(path);
      for (int line = 0; line < 150; ++line) log << "line " << line << '\n' << std::flush;
    });
    LineTail tail(path);
    std::vector<TailLine> lines;
    while (lines.size() < 150) {
      for (auto& line : tail.poll(monotonic_now()).lines) lines.push_back(std::move(line));
      reads = true;
    }
    writer.join();
    const std::string text = *os::read_file(path);
    for (const TailLine& line : lines)
      REQUIRE(line.cursor.head_hash == head_hash(text, line.cursor.offset));
  }
}

TEST_CASE("tail: resume from every line's cursor -> exactly the rest") {
  const Folder folder;
  folder.append("log", "a\nbb\n\nccc\rdd\n");
  LineTail tail(folder / "log");
  const auto all = tail.poll(at(0s)).lines;
  REQUIRE(all.size() == 5);
  for (std::size_t i = 0; i < all.size(); ++i) {
    LineTail resumed(folder / "log", {}, all[i].cursor);
    const auto rest = resumed.poll(at(0s)).lines;
    REQUIRE(rest.size() == all.size() - i - 1);
    for (std::size_t k = 0; k < rest.size(); ++k) {
      CHECK(rest[k].text == all[i + 1 + k].text);
      CHECK(rest[k].cursor == all[i + 1 + k].cursor);
    }
  }
}

TEST_CASE("tail: rotation by rename -> the old file to its end, then the new one") {
  const Folder folder;
  folder.append("log", "1\n2\n");
  LineTail tail(folder / "log");
  tail.poll(at(0s));
  std::filesystem::rename(folder / "log", folder / "log.1");
  folder.append("log.1", "3\n");
  CHECK(texts(tail.poll(at(1s))) == Texts{"3"});  // its writer has it open still
  folder.append("log", "5\n");
  CHECK(tail.poll(at(2s)).lines.empty());
  folder.append("log.1", "4\nunended");
  CHECK(texts(tail.poll(at(3s))) == Texts{"4"});
  const auto read = tail.poll(at(20s));
  CHECK(texts(read) == Texts{"unended", "5"});
  CHECK_FALSE(read.restarted);
  folder.append("log", "6\n");
  CHECK(texts(tail.poll(at(21s))) == Texts{"6"});
}

TEST_CASE("tail: rotated between two polls -> found by its inode beside the path") {
  const Folder folder;
  const core::Cursor cursor = behind_first_line(folder, "1\n2\n3\n");
  std::filesystem::rename(folder / "log", folder / "log-20260501");
  folder.append("log", "4\n");
  LineTail resumed(folder / "log", {}, cursor);
  auto read = resumed.poll(at(0s));
  CHECK(texts(read) == Texts{"2", "3"});
  read = resumed.poll(at(10s));
  CHECK(texts(read) == Texts{"4"});
  CHECK_FALSE(read.restarted);
}

TEST_CASE("tail: renamed between two polls, without a successor -> its rest, then what comes") {
  const Folder folder;
  const core::Cursor cursor = behind_first_line(folder, "1\n2\n3\n");
  std::filesystem::rename(folder / "log", folder / "log.1");
  LineTail resumed(folder / "log", {}, cursor);
  CHECK(texts(resumed.poll(at(0s))) == Texts{"2", "3"});
  folder.append("log.1", "4\n");
  CHECK(texts(resumed.poll(at(1s))) == Texts{"4"});
  folder.append("log", "5\n");
  resumed.poll(at(2s));
  const auto read = resumed.poll(at(20s));
  CHECK(texts(read) == Texts{"5"});
  CHECK_FALSE(read.restarted);
}

TEST_CASE("tail: gone between two polls, another file beside it -> nothing of that is read") {
  const Folder folder;
  const core::Cursor cursor = behind_first_line(folder, "1\n2\n3\n");
  std::filesystem::remove(folder / "log");
  folder.append("log.1", "7\n8\n9\n");
  LineTail resumed(folder / "log", {}, cursor);
  CHECK(resumed.poll(at(0s)).lines.empty());
  folder.append("log", "5\n");
  CHECK(texts(resumed.poll(at(1s))) == Texts{"5"});
}

TEST_CASE("tail: rotated several times between two polls -> every file in its order") {
  const Folder folder;
  const core::Cursor cursor = behind_first_line(folder, "1\n2\n");
  const auto rotate = [&](const std::string& to, Duration age) {
    std::filesystem::rename(folder / "log", folder / to);
    std::filesystem::last_write_time(folder / to,
                                     std::filesystem::file_time_type::clock::now() - age);
  };
  folder.append("log.0", "old\n");
  std::filesystem::last_write_time(folder / "log.0",
                                   std::filesystem::file_time_type::clock::now() - 9h);
  rotate("log.2", 3h);
  folder.append("log", "3\n");
  rotate("log.10", 2h);
  folder.append("log", "4\n");
  rotate("log.1", 1h);
  folder.append("log", "5\n");
  folder.append("log.err", "no rotation\n");
  LineTail resumed(folder / "log", {}, cursor);
  Texts all;
  for (int i = 0; i < 10; ++i)
    for (const auto& text : texts(resumed.poll(at(10s * i)))) all.push_back(text);
  CHECK(all == Texts{"2", "3", "4", "5"});
}

TEST_CASE("tail: another user's file beside the log, named like its rotation -> nothing of it") {
  if (::geteuid() != 0) return;
  const Folder folder;
  const core::Cursor cursor = behind_first_line(folder, "1\n2\n");
  std::filesystem::rename(folder / "log", folder / "log.1");
  folder.append("log.7", "theirs\n");
  REQUIRE(::chown((folder / "log.7").c_str(), 54321, 54321) == 0);
  folder.append("log", "3\n");
  LineTail resumed(folder / "log", {}, cursor);
  Texts all;
  for (int i = 0; i < 10; ++i)
    for (const auto& text : texts(resumed.poll(at(10s * i)))) all.push_back(text);
  CHECK(all == Texts{"2", "3"});
}

TEST_CASE("tail: a kernel log of another user -> an error, no line; of a system's user -> read") {
  if (::geteuid() != 0) return;
  const Folder folder;
  folder.append("kern.n01.log", "NVRM: Xid 79\n");
  const std::string path = folder / "kern.n01.log";
  REQUIRE(::chown(path.c_str(), 54321, 54321) == 0);
  TailOptions options;
  options.of_system = true;
  LineTail tail(path, options);
  auto read = tail.poll(at(0s));
  CHECK(read.lines.empty());
  REQUIRE(read.error);
  CHECK(read.error->message().find("belongs to uid 54321") != std::string::npos);
  REQUIRE(::chown(path.c_str(), 104, 4) == 0);
  read = tail.poll(at(1s));
  CHECK_FALSE(read.error);
  CHECK(texts(read) == Texts{"NVRM: Xid 79"});
}

TEST_CASE("tail: copytruncate between two polls -> the rest from the copy, flagged") {
  const Folder folder;
  for (int i = 0; i < 40; ++i) folder.append("log", std::string(40, 'a') + "\n");
  LineTail tail(folder / "log");
  const auto cursor = tail.poll(at(0s)).lines[29].cursor;  // behind 1230 bytes
  std::filesystem::copy_file(folder / "log", folder / "log.1");
  folder.write("log", "new\n");
  LineTail resumed(folder / "log", {}, cursor);
  auto read = resumed.poll(at(0s));
  CHECK(read.restarted);
  REQUIRE(read.lines.size() == 11);
  CHECK(read.lines[0].number == 31);
  CHECK(read.lines[10].text == "new");
  LineTail again(folder / "log", {}, read.lines[4].cursor);  // killed within the copy
  CHECK(again.poll(at(0s)).lines.size() == 5);
  CHECK(texts(again.poll(at(10s))) == Texts{"new"});
}

TEST_CASE("tail: copytruncate -> the unread rest comes from the copy, then from zero, flagged") {
  const Folder folder;
  folder.append("log", "1\n2\n");
  LineTail tail(folder / "log");
  tail.poll(at(0s));
  folder.append("log", "3\n4\n");
  std::filesystem::copy_file(folder / "log", folder / "log.1");
  folder.write("log", "");
  folder.append("log", "5\n6\n7\n8\n9\n");  // longer than before: only the bytes tell
  const auto read = tail.poll(at(1s));
  CHECK(read.restarted);
  CHECK(texts(read) == Texts{"3", "4", "5", "6", "7", "8", "9"});
}

TEST_CASE("tail: truncation without a copy -> from zero, flagged, also after a restart") {
  const Folder folder;
  folder.append("log", "first line\nsecond\n");
  LineTail tail(folder / "log");
  const auto lines = tail.poll(at(0s)).lines;
  folder.write("log", "new\n");
  LineTail resumed(folder / "log", {}, lines[1].cursor);
  for (LineTail* reader : {&tail, &resumed}) {
    const auto read = reader->poll(at(1s));
    CHECK(read.restarted);
    CHECK(texts(read) == Texts{"new"});
  }
}

TEST_CASE("tail: another file under the same inode number or content elsewhere -> distinguished") {
  const Folder folder;
  folder.append("log", "first line\nsecond\n");
  LineTail tail(folder / "log");
  auto cursor = tail.poll(at(0s)).lines[0].cursor;
  cursor.inode += 1;  // an inode that moved between servers: the content decides
  LineTail moved(folder / "log", {}, cursor);
  CHECK(texts(moved.poll(at(0s))) == Texts{"second"});
  folder.write("log", "other text\nsecond\n");
  LineTail other(folder / "log", {}, tail.cursor());
  CHECK(other.poll(at(0s)).restarted);
}

TEST_CASE("tail: a line over the cap -> split and counted, the next line whole") {
  const Folder folder;
  TailOptions options;
  options.longest_line = 1000;
  folder.append("log", std::string(2500, 'x') + "\nnext\n");
  LineTail tail(folder / "log", options);
  const auto read = tail.poll(at(0s));
  REQUIRE(read.lines.size() == 4);
  CHECK(read.lines[0].text.size() == 1000);
  CHECK(read.lines[0].split);
  CHECK(read.lines[2].text.size() == 500);
  CHECK_FALSE(read.lines[2].split);
  CHECK(read.lines[3].text == "next");
  CHECK(read.lines[3].number == 2);
}

TEST_CASE("tail: NUL holes -> skipped and counted; on a network file system after a grace") {
  const Folder folder;
  folder.append("log", "a\n");
  const std::string hole(5000, '\0');
  folder.append("log", hole + "b\nc\n");
  LineTail tail(folder / "log");
  const auto read = tail.poll(at(0s));
  CHECK(texts(read) == Texts{"a", "b", "c"});
  CHECK(read.hole_bytes == 5000);
  TailOptions patient;
  patient.hole_grace = 5s;
  LineTail network(folder / "log", patient);
  CHECK(texts(network.poll(at(0s))) == Texts{"a"});
  CHECK(network.poll(at(3s)).lines.empty());
  CHECK(texts(network.poll(at(6s))) == Texts{"b", "c"});
}

TEST_CASE("tail: a sparse gigabyte -> leapt over at once") {
  const Folder folder;
  folder.append("log", "a\n");
  std::filesystem::resize_file(folder / "log", 1u << 30);
  folder.append("log", "b\n");
  LineTail tail(folder / "log");
  auto read = tail.poll(at(0s));
  while (read.more) {
    auto next = tail.poll(at(0s));
    for (auto& line : next.lines) read.lines.push_back(std::move(line));
    read.more = next.more;
  }
  CHECK(texts(read) == Texts{"a", "b"});
}

TEST_CASE(
    "tail: a terabyte of nothing behind the last line -> no poll reads it, what follows is seen") {
  const Folder folder;
  folder.append("log", "a\n");
  std::filesystem::resize_file(folder / "log", std::uintmax_t{1} << 40);
  LineTail tail(folder / "log");
  const Instant before = monotonic_now();
  auto read = tail.poll(at(0s));
  CHECK(texts(read) == Texts{"a"});
  while (read.more) read = tail.poll(at(0s));
  CHECK(monotonic_now() - before < 5s);
  folder.append("log", "b\n");
  CHECK(texts(tail.poll(at(1s))) == Texts{"b"});
}

TEST_CASE("tail: more than a poll's share -> the rest at the next poll, nothing lost") {
  const Folder folder;
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += "line " + std::to_string(i) + "\n";
  folder.append("log", text);
  TailOptions options;
  options.bytes_a_poll = 300'000;
  LineTail tail(folder / "log", options);
  int next = 0;
  for (bool more = true; more;) {
    const auto read = tail.poll(at(0s));
    for (const auto& line : read.lines) {
      REQUIRE(line.text == "line " + std::to_string(next));
      ++next;
    }
    more = read.more;
  }
  CHECK(next == 100'000);
}

TEST_CASE("tail: a FIFO, a folder, no permission -> an error, never a block") {
  const Folder folder;
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  CHECK(LineTail(folder / "fifo").poll(at(0s)).error->what == "is no regular file");
  CHECK(LineTail(folder.path).poll(at(0s)).error.has_value());
}

TEST_CASE("tail: from_end -> only what comes later") {
  const Folder folder;
  folder.append("log", "old\n");
  TailOptions options;
  options.from_end = true;
  LineTail tail(folder / "log", options);
  CHECK(tail.poll(at(0s)).lines.empty());
  folder.append("log", "new\n");
  CHECK(texts(tail.poll(at(1s))) == Texts{"new"});
}
