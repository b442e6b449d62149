#include "watch/checkpoint_removal.hpp"

#include <string_view>

#include "common/os/own_folder.hpp"
#include "watch/checkpoint_scan.hpp"

namespace stoker::watch {
namespace {

// The manifest, shards, the record of a copy, and each of them while it is written.
bool is_checkpoint_file(std::string_view name) {
  return name.starts_with(wire::kManifestName) || name.starts_with("shard-") ||
         name.starts_with(kCopyRecord);
}

}  // namespace

Status remove_checkpoint_files(const std::string& directory, const std::string& name) {
  return os::remove_own_files(directory, name, is_checkpoint_file, wire::kManifestName);
}

void remove_leftover(const std::string& directory, const std::string& name,
                     const std::string& run) {
  const auto manifest = read_manifest(directory + "/" + name);
  if (!manifest || manifest->run == run) (void)remove_checkpoint_files(directory, name);
}

}  // namespace stoker::watch
