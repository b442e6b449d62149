// Packed logs that were cut off or damaged: all that is intact in front of that place is read, and
// one note says what happened.
#include "diagnose/input/log_reader.hpp"

#include <bzlib.h>
#include <doctest/doctest.h>
#include <lz4frame.h>
#include <lzma.h>
#define ZLIB_CONST  // next_in points to const
#include <zlib.h>
#include <zstd.h>

#include "detector.hpp"
#include "diagnose/input/log_file.hpp"
#include "diagnose/input/parse_file.hpp"
#include "diagnose/input/utf16.hpp"
#include "tests/folder.hpp"

using namespace stoker;
using namespace stoker::diagnose;
using namespace std::string_literals;

namespace {

const std::uint8_t* octets(const std::string& text) {
  return reinterpret_cast<const std::uint8_t*>(text.data());
}
std::uint8_t* octets(std::string& text) {
  return reinterpret_cast<std::uint8_t*>(text.data());
}

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
  const testing::Folder folder;
  auto reader = LogReader::open(folder.write("packed", bytes));
  REQUIRE(reader);
  Read all;
  for (auto block = reader->next(); !block.empty(); block = reader->next()) all.text += block;
  all.notes = reader->notes();
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

using Packer = std::string (*)(const std::string&);

std::string xz(const std::string& text) {
  std::string packed(lzma_stream_buffer_bound(text.size()), '\0');
  std::size_t used = 0;
  REQUIRE(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr, octets(text), text.size(),
                                  octets(packed), &used, packed.size()) == LZMA_OK);
  packed.resize(used);
  return packed;
}

std::string bzip2(const std::string& text) {
  std::string packed(text.size() + text.size() / 50 + 1024, '\0'), from = text;
  auto used = static_cast<unsigned>(packed.size());
  REQUIRE(BZ2_bzBuffToBuffCompress(packed.data(), &used, from.data(),
                                   static_cast<unsigned>(from.size()), 1, 0, 0) == BZ_OK);
  packed.resize(used);
  return packed;
}

std::string lz4(const std::string& text) {
  std::string packed(LZ4F_compressFrameBound(text.size(), nullptr), '\0');
  const std::size_t used =
      LZ4F_compressFrame(packed.data(), packed.size(), text.data(), text.size(), nullptr);
  REQUIRE(LZ4F_isError(used) == 0);
  packed.resize(used);
  return packed;
}

std::string zstd(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t used = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3);
  REQUIRE(ZSTD_isError(used) == 0);
  packed.resize(used);
  return packed;
}

// As pzstd writes one in front of each frame.
std::string skippable_frame() {
  return std::string("\x50\x2a\x4d\x18\x04\0\0\0abcd", 12);
}

struct Kind {
  const char* name;
  Packer pack;
  std::size_t block;  // of text that is lost at most where a file is cut
};
constexpr Kind kKinds[] = {{"gz", gzipped, 256},
                           {"xz", xz, 256},
                           {"bz2", bzip2, 100'000},
                           {"lz4", lz4, 64u << 10},
                           {"zst", zstd, 128u << 10}};

}  // namespace

TEST_CASE("gz, xz, bzip2, lz4, zstd -> the text; what is packed inside stays as it is") {
  const std::string text = many_lines();
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.name);
    const std::string packed = kind.pack(text);
    for (const auto& [bytes, expected] :
         {std::pair{packed, text}, std::pair{packed + kind.pack("end\n"), text + "end\n"},
          std::pair{packed + std::string(512, '\0') + kind.pack("end\n"), text + "end\n"},
          std::pair{packed + "garbage that a tape left", text}, std::pair{kind.pack(""), ""s}}) {
      const Read whole = read_packed(bytes);
      CHECK(whole.text == expected);
      CHECK(whole.notes.empty());
    }
    const std::string inner = bzip2("one\n");
    CHECK(read_packed(kind.pack(inner)).text == inner);
  }
}

TEST_CASE("xz, bzip2, lz4, zstd: cut off anywhere -> what is whole, one note says truncated") {
  const std::string text = many_lines();
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.name);
    const std::string packed = kind.pack(text);
    std::size_t most = 0;
    for (const std::size_t kept : {packed.size() - 1, packed.size() - 40, packed.size() * 3 / 4,
                                   packed.size() / 2, packed.size() / 3}) {
      CAPTURE(kept);
      const Read read = read_packed(packed.substr(0, kept));
      CHECK(text.starts_with(read.text));
      REQUIRE(read.notes.size() == 1);
      CHECK(read.notes[0].starts_with("truncated"));
      // Of lines that look alike, text and packed bytes grow alike.
      const auto whole = static_cast<double>(text.size()) * static_cast<double>(kept) /
                         static_cast<double>(packed.size());
      CHECK(static_cast<double>(read.text.size() + kind.block) >= whole * 0.95);
      most = std::max(most, read.text.size());
    }
    CHECK(most > text.size() / 2);
  }
}

TEST_CASE("xz, bzip2, lz4, zstd: damaged in the middle -> a note, no crash") {
  const std::string text = many_lines();
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.name);
    std::string packed = kind.pack(text);
    for (std::size_t i = packed.size() / 2; i < packed.size() / 2 + 64; ++i) packed[i] = '\xff';
    CHECK(read_packed(packed).notes.size() == 1);
  }
}

TEST_CASE("zst: the frames of pzstd that are to be skipped; a window that is too large") {
  const std::string frame = zstd("one\n");
  const Read read = read_packed(skippable_frame() + frame + skippable_frame() + zstd("two\n"));
  CHECK(read.text == "one\ntwo\n");
  CHECK(read.notes.empty());
  // Frame header: no content size, a window of 2^31 bytes.
  const Read large = read_packed(std::string("\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", 9));
  CHECK(large.text.empty());
  REQUIRE(large.notes.size() == 1);
  CHECK(large.notes[0].find("256 MiB") != std::string::npos);
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

TEST_CASE("log reader: another user's link -> read where a person named it, else refused") {
  if (::geteuid() != 0) return;  // to make it another user's
  const testing::Folder folder;
  const std::string path = folder.write("private.log", "first\n");
  std::filesystem::create_symlink(path, folder / "run.log");
  CHECK(LogReader::open(folder / "run.log", {}, Links::Trusted).has_value());  // our own link
  REQUIRE(::lchown((folder / "run.log").c_str(), 54321, 54321) == 0);
  CHECK(LogReader::open(folder / "run.log").has_value());
  const auto refused = LogReader::open(folder / "run.log", {}, Links::Trusted);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message().find("54321") != std::string::npos);
  CHECK(LogReader::open(path, {}, Links::Trusted).has_value());
  CHECK_FALSE(LogReader::open(folder / "none.log", {}, Links::Trusted).has_value());
}

TEST_CASE("log reader: holes of terabytes -> leapt over, one note; a small one is read as zeros") {
  const testing::Folder folder;
  const std::string path = folder.write("sparse.log", "first\n");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
  folder.append("sparse.log", "last\n");
  std::filesystem::resize_file(path, std::uintmax_t{2} << 40);
  auto reader = LogReader::open(path);
  REQUIRE(reader);
  std::string text;
  for (auto block = reader->next(); !block.empty() && text.size() < (4u << 20);
       block = reader->next())
    text += block;
  std::erase(text, '\0');  // of the blocks that hold the lines
  CHECK(text == "first\nlast\n");
  REQUIRE(reader->notes().size() >= 1);
  CHECK(reader->notes().back().find(" bytes of nothing (holes) left out") != std::string::npos);

  folder.write("small.log", "a");
  std::filesystem::resize_file(folder / "small.log", 64 << 10);
  auto small = LogReader::open(folder / "small.log");
  REQUIRE(small);
  CHECK(small->next().size() == 64u << 10);
  CHECK(small->notes().empty());
}

TEST_CASE("parse file: a packed log that was cut off -> its iterations and a note") {
  const testing::Folder folder;
  const std::string packed = gzipped(
      " iteration       11/     100 | lm loss: 9.1E+00 | loss scale: 1.0 | grad norm: 1.1 |\n");
  const std::string path = folder.write("cut.gz", packed.substr(0, packed.size() - 4));
  int found = 0;
  const auto parsed = parse_file(path, [&](const FoundMetrics&) { ++found; });
  REQUIRE(parsed);
  CHECK(found == 1);
  CHECK(parsed->notes.size() == 1);
}

TEST_CASE(
    "scan file: bytes of anything, with no NUL among them -> binary; a coloured log -> text") {
  const testing::Folder folder;
  std::string noise;
  for (std::uint32_t n = 1; noise.size() < 4096; n = n * 1664525 + 1013904223)
    if ((n >> 24) != 0) noise += static_cast<char>(n >> 24);
  std::string colours;
  while (colours.size() < 4096) colours += "\x1b[31mloss\x1b[0m 2.1\b\b\r\n";
  for (const auto& [bytes, binary] : {std::pair{noise, true}, std::pair{colours, false}}) {
    const auto log = scan_file(detector(), folder.write("log", bytes), 0, false);
    REQUIRE(log);
    CHECK(log->binary == binary);
  }
}
