// One buffer a file; it only grows when a single line or word does.
#include "worker/train/data/text_documents.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <span>

#include "worker/train/data/byte_file.hpp"
#include "worker/train/data/word_split.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kPiece = 1u << 20;
constexpr std::size_t kMaxWord = 64u << 20;  // a longer "word" is cut
constexpr std::size_t kMaxLine = 256u << 20;

bool blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\f\v") == std::string_view::npos;
}

class Reader {
 public:
  Reader(const std::string& path, DocumentKind kind, const DocumentSink& sink)
      : path_(path), kind_(kind), sink_(sink) {}

  Status feed(std::string_view piece, bool last) {
    pending_ += piece;
    if (kind_ == DocumentKind::File) return feed_file(last);
    std::size_t begin = 0;
    while (begin < pending_.size()) {
      const auto end = pending_.find('\n', begin);
      if (end == std::string::npos && !last) break;
      const auto stop = std::min(end, pending_.size());
      ++line_;
      STOKER_TRY_STATUS(take_line(std::string_view(pending_).substr(begin, stop - begin)));
      begin = std::min(stop + 1, pending_.size());
    }
    pending_.erase(0, begin);
    if (pending_.size() > kMaxLine)
      return fail(fmt::format("line {} is longer than {} bytes", line_ + 1, kMaxLine), path_);
    return last ? close() : ok();
  }

 private:
  Status feed_file(bool last) {
    std::size_t cut = last ? pending_.size() : safe_cut(pending_);
    if (!last && cut == pending_.size() && cut < kMaxWord) return ok();
    STOKER_TRY_STATUS(give(std::string_view(pending_).substr(0, cut)));
    pending_.erase(0, cut);
    return last ? close() : ok();
  }

  Status take_line(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool empty = blank(line);
    switch (kind_) {
      case DocumentKind::File: return ok();
      case DocumentKind::Line:
        if (empty) return ok();
        STOKER_TRY_STATUS(give(line));
        return close();
      case DocumentKind::Paragraph:
        if (empty) return flush_paragraph();
        paragraph_ += line;
        paragraph_ += '\n';
        return ok();
      case DocumentKind::Jsonl: return empty ? ok() : take_json(line);
    }
    return ok();
  }

  Status take_json(std::string_view line) {
    const std::string object = fmt::format("{}:{}", path_, line_);
    JsonLimits limits;
    limits.bytes = kMaxLine;
    STOKER_TRY(json, parse_json(line, object, limits));
    if (!json.is_object() || !json.contains("text") || !json["text"].is_string())
      return fail("no \"text\" in this line of JSON", object);
    STOKER_TRY_STATUS(give(json["text"].get_ref<const std::string&>()));
    return close();
  }

  Status flush_paragraph() {
    const std::string document = std::exchange(paragraph_, {});
    STOKER_TRY_STATUS(give(document));
    return close();
  }

  Status give(std::string_view text) {
    if (text.empty()) return ok();
    open_ = true;
    return sink_.text(text);
  }
  Status close() {
    if (!paragraph_.empty()) return flush_paragraph();
    return std::exchange(open_, false) ? sink_.end() : ok();
  }

  const std::string& path_;
  DocumentKind kind_;
  const DocumentSink& sink_;
  std::string pending_;
  std::string paragraph_;
  std::uint64_t line_ = 0;
  bool open_ = false;  // the document has text
};

}  // namespace

Status read_documents(const std::string& path, DocumentKind kind, const DocumentSink& sink) {
  STOKER_TRY(file, ByteFile::open(path));
  Reader reader(path, kind, sink);
  std::string piece;
  for (std::uint64_t at = 0; at < file.size();) {
    piece.resize(std::min<std::uint64_t>(kPiece, file.size() - at));
    STOKER_TRY_STATUS(file.read(at, std::as_writable_bytes(std::span(piece))));
    at += piece.size();
    STOKER_TRY_STATUS(reader.feed(piece, at == file.size()));
    if (sink.read) sink.read(piece.size());
  }
  return ok();
}

}  // namespace stoker::train
