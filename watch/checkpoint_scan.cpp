#include "watch/checkpoint_scan.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/fuse_mount.hpp"
#include "common/os/own_files.hpp"
#include "common/os/own_folder.hpp"

namespace stoker::watch {
namespace {

constexpr std::size_t kManifestLimit = 256u << 20;
constexpr std::size_t kMostFiles = 1u << 20;
constexpr std::size_t kMostNamed = 20;  // entries of other users
constexpr const char* kNoOptimizer =
    "it holds no optimizer state: a copy for inference, no start resumes from it";

bool plain_name(const std::string& name) {
  return !name.empty() && name.size() < 256 && name[0] != '.' &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

Result<std::uint64_t> regular_size(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (!S_ISREG(info.st_mode)) return fail("not a regular file", path);
  return static_cast<std::uint64_t>(info.st_size);
}

Status check_file(const std::string& path, const wire::ManifestFile& file, Depth depth) {
  const std::string full = path + "/" + file.name;
  STOKER_TRY(size, regular_size(full));
  if (size != file.size)
    return fail(fmt::format("{} bytes instead of {}: truncated or torn", size, file.size), full);
  if (depth == Depth::Sizes) return ok();
  STOKER_TRY(hash, xxh3_64_file(full));
  if (hex64(hash) != file.xxh3)
    return fail(fmt::format("XXH3 is {}, the manifest says {}: the content has changed",
                            hex64(hash), file.xxh3),
                full);
  return ok();
}

Status check_strays(const std::string& path, const wire::Manifest& manifest) {
  std::set<std::string> known{wire::kManifestName};
  for (const auto& file : manifest.files) known.insert(file.name);
  STOKER_TRY(names, os::list_directory(path));
  for (const std::string& name : names)
    if (!known.contains(name))
      return fail("a file that the manifest does not know", path + "/" + name,
                  "move it out of the checkpoint");
  return ok();
}

// Of a folder where others can put something: whether this entry is theirs. One system call, and no
// look into it: they may have made a million.
bool is_of_another(int folder, const std::string& name) {
  struct stat info {};
  return ::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_uid != 0 &&
         info.st_uid != ::geteuid();
}

// Entries of other users, the newest of them named.
class Planted {
 public:
  void add(const std::string& directory, const std::string& name, CheckpointScan& scan) {
    if (++count_ > kMostNamed) return;
    const Status owner = os::check_owner(directory + "/" + name);
    scan.damaged.push_back({name, owner ? "it was another user's" : owner.error().message()});
    last_ = scan.damaged.size() - 1;
  }
  void close(CheckpointScan& scan) const {
    if (count_ > kMostNamed)
      scan.damaged[last_].why +=
          fmt::format("; {} more entries of other users are passed over", count_ - kMostNamed);
  }

 private:
  std::size_t count_ = 0, last_ = 0;
};

}  // namespace

Result<wire::Manifest> read_manifest(const std::string& path) {
  const std::string file = path + "/" + wire::kManifestName;
  STOKER_TRY(text, os::read_file(file, kManifestLimit, true));
  auto manifest = from_json_text<wire::Manifest>(text, file, {kManifestLimit, 16});
  if (!manifest) return fail(manifest.error());
  if (manifest->version < 1 || manifest->version > wire::kManifestVersion)
    return fail(fmt::format("format version {} (this program reads up to {})", manifest->version,
                            wire::kManifestVersion),
                file, "use the newer stoker that wrote it");
  if (manifest->files.size() > kMostFiles) return fail("too many files", file);
  std::set<std::string> names;
  for (const auto& entry : manifest->files)
    if (!plain_name(entry.name) || !names.insert(entry.name).second)
      return fail(fmt::format("\"{}\" is no name for a file of a checkpoint", entry.name), file);
  return manifest;
}

Result<wire::Manifest> check_checkpoint(const std::string& path, Depth depth) {
  if (!os::exists(path)) return fail("no such checkpoint", path);
  auto manifest = read_manifest(path);
  if (!manifest) return manifest;
  const std::string name = path.substr(path.find_last_not_of('/') == std::string::npos
                                           ? 0
                                           : path.rfind('/', path.find_last_not_of('/')) + 1);
  const auto id = wire::parse_checkpoint_name(name.substr(0, name.find('/')));
  if (id && (id->iteration != manifest->iteration || id->generation != manifest->generation))
    return fail(fmt::format("its manifest is that of {}",
                            wire::checkpoint_name(manifest->iteration, manifest->generation)),
                path);
  STOKER_TRY_STATUS(check_strays(path, *manifest));
  for (const auto& file : manifest->files) STOKER_TRY_STATUS(check_file(path, file, depth));
  return manifest;
}

Status check_content(const std::string& path, const wire::Manifest& manifest, std::size_t index,
                     std::size_t count) {
  for (std::size_t i = index; i < manifest.files.size(); i += count)
    STOKER_TRY_STATUS(check_file(path, manifest.files[i], Depth::Content));
  return ok();
}

Status check_writer(const std::string& path) {
  STOKER_TRY_STATUS(os::check_owner(path));
  return os::check_own(path + "/" + wire::kManifestName);
}

Result<wire::Manifest> check_own_checkpoint(const std::string& path, Depth depth) {
  if (!os::exists(path)) return fail("no such checkpoint", path);
  STOKER_TRY_STATUS(check_writer(path));
  return check_checkpoint(path, depth);
}

Result<CheckpointScan> scan_checkpoints(const std::string& directory,
                                        const std::optional<wire::Lineage>& lineage, Depth depth,
                                        const KnownDamage& known) {
  CheckpointScan scan;
  if (!os::exists(directory)) return scan;
  STOKER_TRY(names, os::list_directory(directory));
  std::vector<std::pair<wire::CheckpointId, std::string>> candidates;
  for (const std::string& name : names) {
    const auto id = wire::parse_checkpoint_name(name);
    if (!id) {
      if (name.starts_with("step-")) scan.unfinished.push_back(name);
      continue;
    }
    if (lineage && !wire::accepts(*lineage, id->generation, id->iteration))
      scan.foreign.push_back(name);
    else
      candidates.emplace_back(*id, name);
  }
  std::sort(candidates.rbegin(), candidates.rend());
  const os::Fd folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool keeps_others_out = !folder || os::check_own(folder.get(), directory);
  const bool is_shown_by_another = !keeps_others_out && !os::forger_of(folder.get()).empty();
  Planted planted;
  for (const auto& [id, name] : candidates) {
    const std::string path = directory + "/" + name;
    if (!keeps_others_out && (is_shown_by_another || is_of_another(folder.get(), name))) {
      planted.add(directory, name, scan);
      continue;
    }
    if (!os::exists(path + "/" + wire::kManifestName)) {
      scan.unfinished.push_back(name);
      continue;
    }
    const auto damage = known.find(name);
    auto manifest = damage != known.end() ? Result<wire::Manifest>(fail(damage->second))
                                          : check_own_checkpoint(path, depth);
    if (manifest && manifest->without_optimizer) manifest = fail(kNoOptimizer, path);
    if (manifest) {
      scan.newest = FoundCheckpoint{name, path, std::move(*manifest)};
      break;
    }
    scan.ours_damaged |= keeps_others_out || check_writer(path).has_value();
    scan.damaged.push_back({name, manifest.error().message()});
  }
  planted.close(scan);
  return scan;
}

}  // namespace stoker::watch
