// Text files as a stream of documents, in pieces, of any size. A document is a file, a
// paragraph (up to a blank line), a line, or the "text" of a line of JSON; empty documents are left
// out.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/json.hpp"
#include "common/result.hpp"

namespace stoker::train {

enum class DocumentKind { File, Paragraph, Line, Jsonl };

struct DocumentSink {
  std::function<Status(std::string_view)>
      text;                     // a piece of the open document, cut at a safe_cut() place
  std::function<Status()> end;  // the document is complete
  std::function<void(std::uint64_t)> read;  // so many bytes of the file are read; may be empty
};

// Errors: a file that cannot be read, a line of more than 256 MiB, a line of JSON without a "text".
Status read_documents(const std::string& path, DocumentKind kind, const DocumentSink& sink);

}  // namespace stoker::train

namespace stoker {
template <>
struct EnumNames<train::DocumentKind> {
  static constexpr std::array names{"file", "paragraph", "line", "jsonl"};
};
}  // namespace stoker
