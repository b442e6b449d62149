// How many rows and columns the terminal shows.
#pragma once

#include <map>
#include <string>

namespace stoker::cli {

struct ScreenSize {
  int rows = 24, columns = 80;
};

// LINES and COLUMNS where they are set, else the terminal `fd`, else 24 x 80. At most 1000 x 1000.
ScreenSize screen_size(const std::map<std::string, std::string>& environment, int fd);

}  // namespace stoker::cli
