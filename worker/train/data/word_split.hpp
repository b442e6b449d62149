// GPT-2's pre-tokenization, the pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// as a scanner. Every byte of the text is in exactly one word; bytes that are no UTF-8 count as
// characters of "other".
#pragma once

#include <cstddef>
#include <string_view>

namespace stoker::train {

// Length in bytes of the first word of `text`; 0 only for an empty text.
std::size_t first_word(std::string_view text);

// A place where a long text may be cut without changing its words: between a character that is no
// white space and a space or newline. The last such place, or text.size() without one.
std::size_t safe_cut(std::string_view text);

}  // namespace stoker::train
