// Text of others inside a Markdown document that people read raw too.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

// What would begin emphasis, code, HTML or a link gets a backslash; all else stays, so that names
// and numbers read as they are. For text inside a line, not at its beginning.
std::string escape_markdown(std::string_view text);

}  // namespace stoker
