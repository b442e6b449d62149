// Background: looks on a thread of its own, so that a file system that hangs does not take the keys
// away. The thread that hangs is left behind at the end; nothing of the caller's is used by it.
#pragma once

#include <functional>
#include <memory>

#include "cli/top/selection.hpp"
#include "cli/top/view.hpp"

namespace stoker::cli::top {

class Background {
 public:
  // `look` is called on the thread alone, and owns what it uses.
  explicit Background(std::function<View(const Selection&)> look);
  // Waits a moment for the thread; where it hangs, it is left behind.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // The view for `selection` as of now. Where none comes within `patience`: the one before, with
  // `unread` saying for how long. Valid until the next call. Rethrows what `look` threw.
  const View& look(const Selection& selection, WallTime now, Duration patience);

 private:
  struct Shared;
  static void serve(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
  View view_;
  std::optional<WallTime> hangs_since_;
};

}  // namespace stoker::cli::top
