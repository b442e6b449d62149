// A mail as RFC 5322 wants it: headers that no text can break, both bodies in quoted-printable.
#pragma once

#include <string>
#include <vector>

#include "alerts/render.hpp"

namespace stoker::alerts {

// "name@host": ASCII without blanks, control characters and brackets, so that it can neither break
// a header nor an SMTP command.
bool is_mail_address(const std::string& text);
// RFC 2047 words where the text is not plain ASCII; folded lines.
std::string encoded_header(const std::string& text);
// RFC 2045; lines end in CRLF, no line begins with a dot.
std::string quoted_printable(const std::string& text);

// The whole message. All mails of one incident refer to the same Message-ID, which the first one
// has: one thread. Repeated deliveries of one alert have the same Message-ID.
std::string mail_of(const RenderedAlert& alert, const std::string& from,
                    const std::vector<std::string>& to);

}  // namespace stoker::alerts
