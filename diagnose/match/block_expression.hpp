// An expression as the block pass looks for it: it finds all that the expression itself finds, and
// perhaps more. Anchors are gone (a line's message starts behind its labels, which only the caller
// knows), digits are not distinguished, and what may be a digit may be left out. So it also finds
// something in the line that is left when each run of digits becomes a single '0', whenever the
// expression finds something in the line itself: the digits of a run are matched one after the
// other, one of them by the '0' and the others by nothing. No expression goes on in the next line.
#pragma once

#include <string>

namespace stoker::diagnose {

struct BlockExpression {
  std::string text;
  bool digits_alike =
      true;  // false: it could not be rewritten so; its anchors are gone all the same
};

BlockExpression block_expression(const std::string& expression);

}  // namespace stoker::diagnose
