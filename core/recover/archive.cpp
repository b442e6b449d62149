// Old checkpoints: what the agents copied to another disk, what keeps them from it, and what they
// deleted. They delete nothing that is to be copied before its copy was read back.
#include <fmt/format.h>

#include "core/alerts/alerting.hpp"
#include "core/handlers.hpp"
#include "core/recover/rollback.hpp"
#include "core/signals/training_health.hpp"

namespace stoker::core {

void on_checkpoints_deleted(Turn& turn, const wire::CheckpointsDeleted& e) {
  std::string names;
  std::vector<wire::CheckpointId> gone;
  auto& known = turn.r().health.checkpoint.known;
  for (const std::string& name : e.checkpoints) {
    names += (names.empty() ? "" : ", ") + name;
    const auto id = wire::parse_checkpoint_name(name);
    const auto found = id ? known.find(id->iteration.value) : known.end();
    if (found == known.end() || found->second != id->generation) continue;
    forget_saved(turn.r(), id->iteration);
    gone.push_back(*id);
  }
  turn.say(fmt::format("old checkpoints were deleted, as checkpoints.keep says: {}", names));
  for (const wire::CheckpointId& id : gone) heed_lost_target(turn, id, "deleted");
}

void on_archived(Turn& turn, const wire::CheckpointArchived& e) {
  CheckpointFacts& facts = turn.r().health.checkpoint;
  if (e.iteration >= facts.archived) {
    facts.archived = e.iteration;
    facts.archived_at = turn.now();
    facts.archived_path = e.path;
  }
  turn.say(
      fmt::format("checkpoint of iteration {} copied to {} in {:.1f}s ({:.1f} MiB{}) and "
                  "read back",
                  e.iteration.value, e.path, e.seconds, static_cast<double>(e.bytes) / (1 << 20),
                  e.without_optimizer ? ", without the optimizer's state" : ""));
  resolve(turn, "archive_failed");
}

void on_archive_failed(Turn& turn, const wire::ArchiveFailed& e) {
  const std::string waiting =
      e.waiting == 0 ? ""
                     : fmt::format("; {} for a copy: nothing of that is deleted before",
                                   e.waiting == 1 ? "1 checkpoint waits"
                                                  : fmt::format("{} checkpoints wait", e.waiting));
  turn.say(fmt::format("{} cannot be copied to {}: {}{}",
                       e.checkpoint.empty() ? "a checkpoint" : e.checkpoint, e.to, e.why, waiting));
  raise(turn,
        {Severity::Warning, "archive_failed",
         fmt::format("checkpoints of {} are not copied to {}: {}", turn.name().text, e.to, e.why),
         fmt::format("df -h {}", e.to), ""});
}

}  // namespace stoker::core
