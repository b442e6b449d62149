// Where a cluster's slurmrestd is and how it is entered: scheduler.rest of RUN.yaml.
#pragma once

#include <string>

#include "common/json.hpp"
#include "common/result.hpp"

namespace stoker::core {

struct RestAccess {
  std::string url;  // unix:/PATH, https://HOST:PORT, http://HOST:PORT; "" = commands are used
  std::string token_file;  // "" = no token: the socket knows its caller
  std::string ca_file;     // "" = the system's certificates
  bool insecure = false;   // http towards another host, token and all
  STOKER_FIELDS(RestAccess, url, token_file, ca_file, insecure)
  friend auto operator<=>(const RestAccess&, const RestAccess&) = default;
};

inline constexpr std::string_view kUnixUrl = "unix:";

// Error, without an object: why the URL cannot be used.
Status check_rest_url(const RestAccess& access);

}  // namespace stoker::core
