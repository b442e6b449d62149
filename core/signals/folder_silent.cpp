// A part of the run that other users can make hang (switch/, a folder of watch.logs, what is
// published) does not answer. The rest of the run goes on, and its orders count by the command
// line; who relies on a kill switch there must know that it is not read. Where the run directory
// itself does not answer, nothing is known of the training: unknown is not dead.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/supply/suspended.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {
namespace {

constexpr const char* kFolderSilent = "folder_silent";

void note_unread(Turn& turn, const FolderSilent& folder) {
  if (turn.r().conditions.unread_since) return;
  turn.r().conditions.unread_since = turn.now();
  const std::string news = fmt::format(
      "{} has not answered for {}: nothing of this run is read or written until it does",
      folder.what, format_duration(folder.lasts));
  turn.say(news + "; its agents' silence does not count, and the training is left alone");
  raise(turn,
        {Severity::Critical, kFolderSilent,
         news + "; its training is left alone, and orders by `stoker` wait",
         "ps -eo pid,user,stat,args | grep ' D'   # on the daemon's host: who waits in it; ask the "
         "file system's administrators. Do not list it: that hangs too",
         folder.what});
}

void note_read_again(Turn& turn, const FolderSilent& folder) {
  RunState& run = turn.r();
  if (!run.conditions.unread_since) return;
  turn.say(fmt::format("{} answers again after {}", folder.what,
                       format_duration(turn.now() - *run.conditions.unread_since)));
  run.conditions.unread_since.reset();
  run.conditions.read_again_at = turn.now();  // ranks may have waited for the same file system
  resolve(turn, kFolderSilent, folder.what);
  resolve(turn, "stop_waits");
  training::reactions_of(run).room_again(run, turn.now());
  if (!supply::is_suspended(run)) training::count_silence_again(turn);
}

}  // namespace

void on_folder_silent(Turn& turn, const FolderSilent& folder) {
  if (folder.own) return folder.silent ? note_unread(turn, folder) : note_read_again(turn, folder);
  if (!folder.silent) {
    // Only a script's progress is read from logs: of agents it would put a real hang off.
    if (!folder.orders && !has_agents(turn.r().policy))
      turn.r().conditions.read_again_at = turn.now();
    turn.say(fmt::format("{} answers again", folder.what));
    return resolve(turn, kFolderSilent, folder.what);
  }
  const std::string news =
      fmt::format("{}: no answer for {}: passed over until it answers, all else goes on",
                  folder.what, format_duration(folder.lasts));
  turn.say(news);
  raise(turn, {folder.orders ? Severity::Critical : Severity::Warning, kFolderSilent,
               folder.orders ? news + "; switch files in it have no effect meanwhile" : news,
               fmt::format("stoker doctor {}   # and ask who holds it; orders by `stoker` count",
                           turn.name().text),
               folder.what});
}

}  // namespace stoker::core
