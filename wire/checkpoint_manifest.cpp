#include "wire/checkpoint_manifest.hpp"

STOKER_JSON_ONCE_SOURCE(stoker::wire::Manifest)

namespace stoker::wire {

bool is_checkpoint_file(std::string_view name) {
  return name.starts_with(kManifestName) || name.starts_with("shard-");
}

}  // namespace stoker::wire
