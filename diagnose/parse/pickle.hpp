// Reads a Python pickle (protocols 0 to 5) as data and executes nothing: what would call a function
// becomes its first container argument (typed lists, OrderedDict) or null. Hostile input: a few
// bytes may name one value a million times, so all memory that reading takes (values, stack, memo,
// the JSON with its copies of shared values) has one budget; beyond it the file is refused.
#pragma once

#include <string_view>

#include "common/json.hpp"
#include "common/result.hpp"

namespace stoker::diagnose {

struct PickleLimits {
  std::size_t values = 1u << 21;         // read, and again in the JSON that comes of them
  std::size_t depth = 16;                // of the JSON; deeper values are null
  std::size_t longest_text = 64u << 10;  // cut
  std::size_t memory = 256u << 20;       // bytes, of all that is held beside the file itself
  std::string_view left_out = {};        // the key of maps whose values are not needed
};

// True when a file that begins so may be a pickle of protocol 2 or later.
bool is_pickle(std::string_view head);

// Tuples, lists and sets become arrays; keys of maps that are no text become their text. Errors: an
// unknown or misplaced opcode, bytes that end too soon, more values or memory than allowed.
Result<Json> read_pickle(std::string_view bytes, const std::string& object,
                         const PickleLimits& limits = {});

}  // namespace stoker::diagnose
