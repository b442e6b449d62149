// The parts of a URL, as libcurl itself reads it: what is checked is what is asked.
#pragma once

#include <string>

#include "common/result.hpp"

namespace stoker::alerts {

struct Url {
  std::string scheme, user_info, host, port, path;  // path: with its query
  [[nodiscard]] std::string origin() const;         // "https://host:port"
  [[nodiscard]] bool loopback() const;
};

// Errors do not repeat the text: it may be a secret.
Result<Url> parse_url(const std::string& text);

std::string url_encoded(const std::string& text);

}  // namespace stoker::alerts
