// Room on disks: a warning while it shrinks, and what it means when the run directory is full. Then
// neither our commands nor the agents' words can be written: what was decided is kept and written
// when there is room, and the agents' silence is no evidence.
#include <algorithm>
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/recover.hpp"
#include "core/signals/detect.hpp"
#include "core/training/reactions.hpp"

namespace stoker::core {
namespace {

constexpr const char* kDiskFull = "disk_full";

}  // namespace

void on_disk(Turn& turn, const DiskLow& disk) {
  if (disk.low) {
    turn.site.disks_low[disk.path] = disk.free_share;
    turn.say(fmt::format("{} has {:.1f}% free", disk.path, 100 * disk.free_share));
    raise(turn, {Severity::Warning, "disk_low",
                 fmt::format("{} has {:.1f}% free", disk.path, 100 * disk.free_share),
                 fmt::format("df -h {}", disk.path), disk.path});
    return;
  }
  turn.site.disks_low.erase(disk.path);
  turn.say(fmt::format("{} has {:.1f}% free again", disk.path, 100 * disk.free_share));
  resolve(turn, "disk_low", disk.path);
  for (auto& [name, run] : turn.site.runs) training::retry_with_room(run, turn.now());
}

void note_no_room(Turn& turn) {
  RunState& run = turn.r();
  if (run.conditions.no_room_since) return;
  run.conditions.no_room_since = turn.now();
  turn.say(
      "the run directory is full: decisions reach the agents when space is free, and the agents' "
      "silence does not count until then");
  raise(turn, {Severity::Critical, kDiskFull,
               fmt::format("{}: the disk is full under {}", turn.name().text, run.policy.directory),
               fmt::format("df -h {0}; df -i {0}   # free space there; stoker continues on its own",
                           run.policy.directory),
               run.policy.directory});
}

void note_room(Turn& turn) {
  RunState& run = turn.r();
  if (!run.conditions.no_room_since) return;
  turn.say(fmt::format("the run directory has free space again after {}",
                       format_duration(turn.now() - *run.conditions.no_room_since)));
  run.conditions.no_room_since.reset();
  resolve(turn, kDiskFull, run.policy.directory);
  resolve(turn, "stop_waits");
  for (Retry& retry : turn.site.retries)
    if (retry.effect.run == turn.name()) retry.at = turn.now();
  training::reactions_of(run).room_again(run, turn.now());
  retry_effects(turn);
}

void on_disk_full(Turn& turn, const DiskFull& disk) {
  if (!disk.full) return note_room(turn);
  if (turn.r().conditions.no_room_since) return;
  turn.say(disk.why);
  note_no_room(turn);
}

}  // namespace stoker::core
