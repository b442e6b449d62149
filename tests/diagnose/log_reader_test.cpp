// Packed logs that were cut off or damaged: all that is intact in front of that place is read, and
// one note says what happened.
#include "diagnose/log_reader.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#define ZLIB_CONST  // next_in points to const
#include <zlib.h>

#include "detector.hpp"
#include "diagnose/log_file.hpp"
#include "diagnose/parse_file.hpp"
#include "diagnose/utf16.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

// One member.
std::string gzipped(const std::string& text) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&z, text.size()), 0);
  z.next_in = reinterpret_cast<z_const Bytef*>(text.data());
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

struct Read {
  std::string text;
  std::vector<std::string> notes;
};

Read read_packed(const std::string& bytes) {
  const auto path = std::filesystem::temp_directory_path() / "stoker-log-reader-test.gz";
  std::ofstream(path, std::ios::binary) << bytes;
  auto reader = LogReader::open(path.string());
  REQUIRE(reader);
  Read all;
  for (auto block = reader->next(); !block.empty(); block = reader->next()) all.text += block;
  all.notes = reader->notes();
  std::filesystem::remove(path);
  return all;
}

std::string many_lines() {
  std::string text;
  std::uint32_t noise = 1;
  for (int i = 0; i < 20'000; ++i) {
    noise = noise * 1664525 + 1013904223;
    text += "line " + std::to_string(i) + " of a log, " + std::to_string(noise) + "\n";
  }
  return text;
}

std::string packed_by(int filter, const std::string& text) {
  std::string packed(text.size() + 65536, '\0');
  std::size_t used = 0;
  archive* out = archive_write_new();
  archive_write_set_format_raw(out);
  archive_write_add_filter(out, filter);
  archive_write_set_bytes_in_last_block(out, 1);
  REQUIRE(archive_write_open_memory(out, packed.data(), packed.size(), &used) == ARCHIVE_OK);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  REQUIRE(archive_write_header(out, entry) == ARCHIVE_OK);
  REQUIRE(archive_write_data(out, text.data(), text.size()) ==
          static_cast<la_ssize_t>(text.size()));
  REQUIRE(archive_write_close(out) == ARCHIVE_OK);
  archive_entry_free(entry);
  archive_write_free(out);
  packed.resize(used);
  return packed;
}

}  // namespace

TEST_CASE("xz, bzip2, lz4, zstd -> the text; what is packed inside stays as it is") {
  const std::string text = many_lines();
  for (const int filter :
       {ARCHIVE_FILTER_XZ, ARCHIVE_FILTER_BZIP2, ARCHIVE_FILTER_LZ4, ARCHIVE_FILTER_ZSTD}) {
    CAPTURE(filter);
    const std::string packed = packed_by(filter, text);
    const Read whole = read_packed(packed);
    CHECK(whole.text == text);
    CHECK(whole.notes.empty());
    // libarchive would start the program lrzip for this one.
    const Read nested = read_packed(packed_by(filter, "LRZI\x01\x02 no log\n"));
    CHECK(nested.text == "LRZI\x01\x02 no log\n");
    CHECK(nested.notes.empty());
    const std::string inner = packed_by(ARCHIVE_FILTER_BZIP2, "one\n");
    CHECK(read_packed(packed_by(filter, inner)).text == inner);
    CHECK_FALSE(read_packed(packed.substr(0, packed.size() / 2)).notes.empty());
  }
}

TEST_CASE("gz: whole, two members, padded -> all of the text, no note") {
  const std::string text = many_lines(), packed = gzipped(text);
  for (const auto& [bytes, expected] :
       {std::pair{packed, text}, std::pair{packed + gzipped("end\n"), text + "end\n"},
        std::pair{packed + std::string(512, '\0'), text}}) {
    const Read read = read_packed(bytes);
    CHECK(read.text == expected);
    CHECK(read.notes.empty());
  }
}

TEST_CASE("gz: cut off anywhere -> nothing of what is intact is lost, one note says truncated") {
  const std::string text = many_lines(), packed = gzipped(text);
  for (const std::size_t lost :
       {std::size_t{1}, std::size_t{8}, std::size_t{9}, packed.size() / 2}) {
    const Read read = read_packed(packed.substr(0, packed.size() - lost));
    CHECK(text.starts_with(read.text));
    // deflate's blocks are small beside this; its codes are of whole bits
    CHECK(read.text.size() + lost * 16 + 16 >= text.size());
    if (lost <= 8) CHECK(read.text == text);
    REQUIRE(read.notes.size() == 1);
    CHECK(read.notes[0].starts_with("truncated"));
  }
}

TEST_CASE("gz: damaged in the middle -> the text in front of it, one note says damaged") {
  const std::string text = many_lines();
  std::string packed = gzipped(text);
  for (std::size_t i = packed.size() / 2; i < packed.size() / 2 + 64; ++i) packed[i] = '\xff';
  const Read read = read_packed(packed);
  CHECK(read.text.size() > text.size() / 3);
  REQUIRE(read.notes.size() == 1);
  CHECK(read.notes[0].find("damaged") != std::string::npos);
  CHECK(read_packed("\x1f\x8b no gzip at all, but it begins like it").notes.size() == 1);
}

TEST_CASE("utf-16: either order, with a mark and without -> the text, one note says so") {
  const std::string text =
      "[rank3]: CUDA out of memory. Tried\nGr\xc3\xb6\xc3\x9f"
      "e \xe2\x82\xac\n";
  const std::u16string units = u"[rank3]: CUDA out of memory. Tried\nGr\u00f6\u00dfe \u20ac\n";
  for (const bool big : {false, true}) {
    for (const bool marked : {false, true}) {
      std::string bytes;
      const auto append = [&](char16_t unit) {
        const auto low = static_cast<char>(unit & 0xff), high = static_cast<char>(unit >> 8);
        bytes += big ? high : low;
        bytes += big ? low : high;
      };
      if (marked) append(u'\ufeff');
      // A mark tells it of any text; without one most of the head must be Latin.
      for (int i = 0; i < 20'000; ++i)
        for (const char16_t unit : i == 0 && !marked ? std::u16string(200, u'a') + u"\n" : units)
          append(unit);
      const Read read = read_packed(bytes);
      const std::string head = marked ? text : std::string(200, 'a') + "\n";
      CHECK(read.text.substr(0, head.size()) == head);
      CHECK(read.text.ends_with(text));
      CHECK(read.text.size() == head.size() + 19'999 * text.size());
      CHECK(read.notes == std::vector<std::string>{"is UTF-16"});
    }
  }
}

TEST_CASE("utf-16: pairs, a half pair, a lone half -> one character each") {
  auto utf16 = Utf16Text::told_by("\xff\xfe");
  REQUIRE(utf16);
  std::string text;
  for (const char byte : std::string_view("\x3d\xd8\x00\xde"
                                          "a\0\x00\xde\x3d\xd8"
                                          "b\0",
                                          12))
    utf16->feed({&byte, 1}, text);
  CHECK(text ==
        "\xf0\x9f\x98\x80"
        "a\xef\xbf\xbd\xef\xbf\xbd"
        "b");
  CHECK_FALSE(Utf16Text::told_by(std::string_view("plain text of a log, and no more")));
  CHECK_FALSE(Utf16Text::told_by(std::string(300, '\0')));
}

TEST_CASE("parse file: a packed log that was cut off -> its iterations and a note") {
  const auto path = std::filesystem::temp_directory_path() / "stoker-parse-test.gz";
  const std::string packed = gzipped(
      " iteration       11/     100 | lm loss: 9.1E+00 | loss scale: 1.0 | grad norm: 1.1 |\n");
  std::ofstream(path, std::ios::binary) << packed.substr(0, packed.size() - 4);
  int found = 0;
  const auto parsed = parse_file(path.string(), [&](const FoundMetrics&) { ++found; });
  REQUIRE(parsed);
  CHECK(found == 1);
  CHECK(parsed->notes.size() == 1);
  std::filesystem::remove(path);
}

TEST_CASE(
    "scan file: bytes of anything, with no NUL among them -> binary; a coloured log -> text") {
  const auto path = std::filesystem::temp_directory_path() / "stoker-log-reader-test.bin";
  std::string noise;
  for (std::uint32_t n = 1; noise.size() < 4096; n = n * 1664525 + 1013904223)
    if ((n >> 24) != 0) noise += static_cast<char>(n >> 24);
  std::string colours;
  while (colours.size() < 4096) colours += "\x1b[31mloss\x1b[0m 2.1\b\b\r\n";
  for (const auto& [bytes, binary] : {std::pair{noise, true}, std::pair{colours, false}}) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto log = scan_file(detector(), path.string(), 0, false);
    REQUIRE(log);
    CHECK(log->binary == binary);
  }
  std::filesystem::remove(path);
}
