// A folder that other users can make hang (switch/, a folder of watch.logs) does not answer. The
// rest of the run is read on, and its orders count by the command line; who relies on a kill switch
// there must know that it is not read.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"

namespace stoker::core {

void on_folder_silent(Turn& turn, const FolderSilent& folder) {
  if (!folder.silent) {
    turn.say(fmt::format("{} answers again", folder.what));
    return resolve(turn, "folder_silent", folder.what);
  }
  const std::string news =
      fmt::format("{} has not answered for {}: it is not read until it does, everything else is",
                  folder.what, format_duration(folder.lasts));
  turn.say(news);
  raise(turn, {folder.orders ? Severity::Critical : Severity::Warning, "folder_silent",
               folder.orders ? news + "; switch files in it have no effect meanwhile" : news,
               fmt::format("stoker doctor {}   # and ask who holds it; orders by `stoker` count",
                           turn.name().text),
               folder.what});
}

}  // namespace stoker::core
