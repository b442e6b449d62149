// HttpRange: one GET for a part of a remote file, through libcurl. Only http and https, few
// redirects and none from https to http, certificates are checked, what is kept has a limit.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "common/time.hpp"

namespace stoker::cli {

struct RangeRequest {
  std::optional<std::uint64_t> from;  // empty: the last `bytes`
  std::uint64_t bytes = 0;            // at most so many
  // A server that gives no ranges sends the file from its beginning: all in front of `from` is
  // passed over, at most `whole_limit` is read.
  std::uint64_t whole_limit = 0;
  std::string etag, modified;  // answer 304 if the file is still this one; "" = do not ask
};

struct RangeAnswer {
  long status = 0;          // 0: no answer, see `error`
  std::string error;        // one clause: why there is no whole answer
  std::uint64_t begin = 0;  // where `body` begins in the file
  std::string body;
  std::optional<std::uint64_t> total;  // size of the file, where known
  bool whole = false;                  // the server gives no ranges
  bool too_large = false;              // …and the file is over the limit
  std::string etag, modified;          // to be asked with next time; "" = not to be relied on
  std::string encoding;                // Content-Encoding: such bytes are not the file's
  std::optional<Duration> retry_after;
};

class HttpRange {
 public:
  explicit HttpRange(std::string url);
  ~HttpRange();
  HttpRange(const HttpRange&) = delete;
  HttpRange& operator=(const HttpRange&) = delete;

  RangeAnswer get(const RangeRequest& request);
  [[nodiscard]] const std::string& shown_url() const { return shown_; }  // without a password

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::string shown_;
};

// Errors: no http or https URL with a host.
Status check_url(const std::string& url);

}  // namespace stoker::cli
