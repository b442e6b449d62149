// An expression as the block pass looks for it: it finds all that the expression itself finds, and
// perhaps more. Anchors are gone (a line's message starts behind its labels, which only the caller
// knows), and no digit is told from another, so that what holds for a line holds for every line
// that differs from it in its digits alone.
#pragma once

#include <string>

namespace stoker::diagnose {

struct BlockExpression {
  std::string text;
  bool digits_alike = true;  // false: it could not be rewritten so; its anchors are gone all the same
};

BlockExpression block_expression(const std::string& expression);

}  // namespace stoker::diagnose
