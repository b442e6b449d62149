// layout: the screen for a view, as cells. Pure: no terminal, no clock, no file. Any size from one
// row and one column on.
#pragma once

#include "cli/top/cells.hpp"
#include "cli/top/selection.hpp"
#include "cli/top/view.hpp"

namespace stoker::cli::top {

struct Frame {
  Cells cells;
  Extent extent;  // of the part that scrolls
};

Frame layout(const View& view, const Selection& selection, int rows, int columns);

}  // namespace stoker::cli::top
