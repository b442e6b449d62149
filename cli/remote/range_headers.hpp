// What a web server says about the part of a file that it sends: the header lines of its answer.
// Hostile: malformed numbers, values that would break our next request.
#pragma once

#include <string>
#include <string_view>

#include "cli/remote/http_range.hpp"

namespace stoker::cli {

struct RangeHeaders {
  RangeAnswer answer;
  std::string date;
  bool ranged = false;  // the answer says which part it is

  // One line, its end included or not. The first line of an answer starts over: the one before
  // it was a redirect.
  void take(std::string_view line);
};

}  // namespace stoker::cli
