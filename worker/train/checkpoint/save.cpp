#include "worker/train/checkpoint/save.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <future>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "watch/checkpoint_scan.hpp"
#include "wire/lineage.hpp"

namespace stoker::train {
namespace {

struct ShardReport {  // travels between ranks as it is: same program, same machine type
  std::uint64_t ok = 0, disk_full = 0, size = 0;
  kernels::StateDigest digest;
  char xxh3[24] = {};
  char why[400] = {};
};

void set_failure(ShardReport& report, const Error& error) {
  report.ok = 0;
  report.disk_full = is_disk_full(error) ? 1 : 0;
  const std::string text = error.message();
  std::memcpy(report.why, text.data(), std::min(text.size(), sizeof report.why - 1));
}

ShardId shard_of(const wire::Manifest& m, std::uint32_t shard, std::uint32_t shards) {
  return {m.generation, m.iteration, shard, shards};
}

std::string join(const std::string& directory, const std::string& name) {
  return directory + "/" + name;
}

ShardReport write_own(const std::string& aside, const FlatState& state, const ShardId& id) {
  ShardReport report;
  if (::mkdir(aside.c_str(), 0775) != 0 && errno != EEXIST) {
    set_failure(report, errno_error(errno, "cannot make the directory", aside));
    if (errno == ENOSPC || errno == EDQUOT) report.disk_full = 1;
    return report;
  }
  // The digest is made beside the writing: both read the whole shard.
  auto digest = std::async(std::launch::async, [&] {
    return state.digest(shard_range(state.table().flat_size, id.shard, id.shards));
  });
  const auto file = write_shard(aside, state, id);
  if (!file) {
    set_failure(report, file.error());
    return report;
  }
  report.ok = 1;
  report.size = file->size;
  std::memcpy(report.xxh3, file->xxh3.data(), std::min(file->xxh3.size(), sizeof report.xxh3 - 1));
  report.digest = digest.get();
  return report;
}

// Rank 0, when all shards are written: the manifest, then the final name.
Status publish(const SaveRequest& request, const std::string& aside, const FlatState& state,
               const std::vector<ShardReport>& shards, double seconds) {
  wire::Manifest m = request.manifest;
  kernels::StateDigest digest;
  const auto count = static_cast<std::uint32_t>(shards.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const ShardId id = shard_of(m, i, count);
    m.files.push_back({shard_name(id), shards[i].size, shards[i].xxh3});
    for (auto& range : shard_ranges(state, id)) m.ranges.push_back(std::move(range));
    digest.merge(shards[i].digest);
  }
  for (const Parameter& p : state.table().parameters) m.tensors.push_back({p.name, p.shape});
  m.parameters = state.table().scalars();
  m.digest = digest.hex();
  m.saved_at = wall_now();
  m.save_seconds = seconds;
  STOKER_TRY_STATUS(os::sync_directory(aside));
  STOKER_TRY_STATUS(
      os::replace_file(join(aside, wire::kManifestName), to_json_text(m), os::Durability::Synced));
  const std::string path =
      join(request.directory, wire::checkpoint_name(m.iteration, m.generation));
  if (::rename(aside.c_str(), path.c_str()) != 0)
    return fail(errno_error(errno, "cannot rename the finished checkpoint into place", path));
  return os::sync_directory(request.directory);
}

// Rank 0, before anything is written: is the final name free? A good checkpoint stays; a damaged
// one is moved aside, once, under a name that no reader takes.
Result<bool> already_saved(const std::string& path) {
  if (!os::exists(path)) return false;
  const auto found = watch::check_checkpoint(path, watch::Depth::Content);
  if (found) return true;
  for (int n = 1; n < 1000; ++n) {
    const std::string aside = fmt::format("{}.damaged.{}", path, n);
    if (os::exists(aside)) continue;
    if (::rename(path.c_str(), aside.c_str()) == 0) return false;
    return fail(errno_error(errno, "cannot move the damaged checkpoint aside", path));
  }
  return fail("too many damaged checkpoints of this step", path, "remove them");
}

void remove_tree(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

void fill_failure(SaveReport& report, const std::vector<ShardReport>& shards) {
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].ok != 0) continue;
    report.disk_full = report.disk_full || shards[i].disk_full != 0;
    if (report.why.empty()) report.why = fmt::format("rank {}: {}", i, shards[i].why);
  }
}

Result<std::vector<ShardReport>> gather(Comm& comm, const ShardReport& mine, const char* name,
                                        Duration deadline) {
  std::vector<ShardReport> all(comm.mesh().dp);
  STOKER_TRY_STATUS(
      comm.all_gather(Axis::Data, &mine, sizeof mine, all.data(), Call{name, deadline}));
  return all;
}

// A good checkpoint of this name is there: the same state, or one that must not be replaced.
Result<SaveReport> compare_with_saved(Comm& comm, const FlatState& state,
                                      const SaveRequest& request, SaveReport report) {
  STOKER_TRY(digest, state_digest(comm, state, request.deadline));
  const auto manifest = watch::read_manifest(report.path);
  report.saved = report.already = manifest && manifest->digest == digest;
  if (!report.saved)
    report.why = report.path +
                 ": holds another state and is never replaced; choose another "
                 "checkpoint.directory or remove it";
  return report;
}

}  // namespace

Result<SaveReport> save_checkpoint(Comm& comm, const FlatState& state, const SaveRequest& request) {
  const Instant began = monotonic_now();
  const wire::Manifest& m = request.manifest;
  SaveReport report;
  report.name = wire::checkpoint_name(m.iteration, m.generation);
  report.path = join(request.directory, report.name);
  const std::string aside = fmt::format("{}.partial.{}", report.path, request.attempt.value);
  const bool first = comm.rank() == 0;

  ShardReport ready;  // ok: 1 go on, 2 already saved, 0 failed
  if (first) {
    remove_tree(aside);  // of an earlier try of this attempt
    Status folder = os::make_directories(request.directory, 0775);
    auto already = folder ? already_saved(report.path) : Result<bool>(fail(folder.error()));
    if (already)
      ready.ok = *already ? 2 : 1;
    else
      set_failure(ready, already.error());
  }
  STOKER_TRY(plans, gather(comm, ready, "save begins", request.deadline));
  if (plans[0].ok == 2) return compare_with_saved(comm, state, request, std::move(report));
  if (plans[0].ok == 0) {
    fill_failure(report, {plans[0]});
    return report;
  }
  const ShardReport mine =
      write_own(aside, state, shard_of(m, comm.mesh().data_rank(comm.rank()), comm.mesh().dp));
  STOKER_TRY(shards, gather(comm, mine, "save shards", request.deadline));
  fill_failure(report, shards);
  ShardReport done;
  done.ok = 1;
  report.seconds = to_seconds(monotonic_now() - began);
  if (first && report.why.empty())
    if (Status published = publish(request, aside, state, shards, report.seconds); !published)
      set_failure(done, published.error());
  if (first && (!report.why.empty() || done.ok == 0)) remove_tree(aside);
  STOKER_TRY(outcome, gather(comm, done, "save ends", request.deadline));
  if (report.why.empty()) fill_failure(report, {outcome[0]});
  report.saved = report.why.empty();
  for (const ShardReport& shard : shards) report.bytes += shard.size;
  report.seconds = to_seconds(monotonic_now() - began);
  return report;
}

Result<std::string> state_digest(Comm& comm, const FlatState& state, Duration deadline) {
  ShardReport mine;
  mine.ok = 1;
  mine.digest = state.digest(
      shard_range(state.table().flat_size, comm.mesh().data_rank(comm.rank()), comm.mesh().dp));
  STOKER_TRY(all, gather(comm, mine, "digest", deadline));
  kernels::StateDigest sum;
  for (const ShardReport& shard : all) sum.merge(shard.digest);
  return sum.hex();
}

}  // namespace stoker::train
