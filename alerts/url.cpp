// Adapter to libcurl's URL parser.
#include "alerts/url.hpp"

#include <curl/curl.h>
#include <memory>

namespace stoker::alerts {

std::string Url::origin() const {
  return scheme + "://" + host + (port.empty() ? "" : ":" + port);
}

bool Url::loopback() const {
  const bool numbers = host.find_first_not_of("0123456789.") == std::string::npos;
  return host == "localhost" || host == "[::1]" || (numbers && host.starts_with("127."));
}

Result<Url> parse_url(const std::string& text) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> handle(curl_url(), curl_url_cleanup);
  const bool control = text.find_first_of(" \t\r\n") != std::string::npos;
  if (control || curl_url_set(handle.get(), CURLUPART_URL, text.c_str(),
                              CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
    return fail("is not a URL");
  const auto part = [&](CURLUPart which) {
    char* value = nullptr;
    std::string out;
    if (curl_url_get(handle.get(), which, &value, 0) == CURLUE_OK) out = value;
    curl_free(value);
    return out;
  };
  Url url{part(CURLUPART_SCHEME), part(CURLUPART_USER), part(CURLUPART_HOST), part(CURLUPART_PORT),
          part(CURLUPART_PATH)};
  if (const std::string password = part(CURLUPART_PASSWORD); !password.empty())
    url.user_info += ":" + password;
  if (const std::string query = part(CURLUPART_QUERY); !query.empty()) url.path += "?" + query;
  if (url.host.empty()) return fail("names no host");
  return url;
}

std::string url_encoded(const std::string& text) {
  char* encoded = curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size()));
  std::string out = encoded == nullptr ? "" : encoded;
  curl_free(encoded);
  return out;
}

}  // namespace stoker::alerts
