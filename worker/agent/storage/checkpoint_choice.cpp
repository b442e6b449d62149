// The scan itself is watch/'s; here it is put into the agent's words.
#include "worker/agent/storage/checkpoint_choice.hpp"

#include "watch/checkpoint_scan.hpp"

namespace stoker::agent {
namespace {
watch::Depth depth_of(bool verify) {
  return verify ? watch::Depth::Content : watch::Depth::Sizes;
}
}  // namespace

std::string checkpoint_directory(const std::string& run_directory, const wire::Orders& orders) {
  const std::string& folder = orders.checkpoint_directory;
  return folder.starts_with("/") ? folder : run_directory + "/" + folder;
}

ChosenCheckpoint choose_checkpoint(const std::string& directory, const wire::Lineage& lineage,
                                   bool verify) {
  ChosenCheckpoint chosen;
  const auto scan = watch::scan_checkpoints(directory, lineage, depth_of(verify));
  if (!scan) {
    chosen.error = scan.error().message();
    return chosen;
  }
  if (scan->newest || scan->ours_damaged)  // others' alone are no reason to stop
    for (const auto& refused : scan->damaged) chosen.damaged.push_back({refused.name, refused.why});
  if (scan->newest) {
    chosen.name = scan->newest->name;
    chosen.iteration = scan->newest->manifest.iteration;
  }
  return chosen;
}

Status check_checkpoint(const std::string& directory, const wire::CheckpointId& id, bool verify) {
  const std::string path = directory + "/" + wire::checkpoint_name(id.iteration, id.generation);
  const auto manifest = watch::check_own_checkpoint(path, depth_of(verify));
  if (!manifest) return fail(manifest.error());
  if (manifest->without_optimizer) return fail("a copy without the optimizer's state", path);
  return ok();
}

}  // namespace stoker::agent
