// Text of others inside HTML, as content or as the value of an attribute in quotes.
#pragma once

#include <string>
#include <string_view>

namespace stoker {

// < > & " ' become character references; all else stays.
std::string escape_html(std::string_view text);

}  // namespace stoker
