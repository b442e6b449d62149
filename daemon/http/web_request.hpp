// WebRequest: a request of the web door after everything in it has been checked. Names and values
// are decoded; an unknown escape, a control character, a name given twice or too many of them is
// an error of one line.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace stoker::daemon {

struct WebRequest {
  std::string path;                          // "/api/v1/runs/hello/series", decoded
  std::map<std::string, std::string> query;  // decoded
  std::string accept;                        // as sent
};

// `target`: as in the request line.
Result<WebRequest> parse_target(std::string_view target);

// Error: the first name of the query that is not in `known`.
Status only_known(const WebRequest& request, const std::set<std::string>& known);

// ETag: a strong one over the body, with its quotes. `if_none_match`: as sent.
std::string etag_of(std::string_view body);
bool etag_matches(std::string_view if_none_match, std::string_view etag);

// The cookie that a browser keeps instead of the token: its name and value are made from the token
// by HMAC, so the browser never has the token, and cookies of two daemons on one host differ.
struct SessionCookie {
  std::string name, value;
};
SessionCookie session_cookie(std::string_view token);
// The value of `name` in a Cookie header; "" = not there.
std::string_view cookie_value(std::string_view header, std::string_view name);

bool same_secret(std::string_view a, std::string_view b);

}  // namespace stoker::daemon
