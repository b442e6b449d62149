#include "worker/train/checkpoint/save.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fmt/format.h>
#include <future>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/random.hpp"
#include "common/os/there.hpp"
#include "watch/checkpoint_removal.hpp"
#include "watch/checkpoint_scan.hpp"
#include "wire/lineage.hpp"

namespace stoker::train {
namespace {

struct ShardReport {  // travels between ranks as it is: same program, same machine type
  std::uint64_t ok = 0, disk_full = 0, size = 0;
  kernels::StateDigest digest;
  char xxh3[24] = {};
  char why[400] = {};
  char suffix[16] = {};  // rank 0's: of the directory aside
};

void set_failure(ShardReport& report, const Error& error) {
  report.ok = 0;
  report.disk_full = is_disk_full(error) ? 1 : 0;
  const std::string text = error.message();
  std::memcpy(report.why, text.data(), std::min(text.size(), sizeof report.why - 1));
}

ShardId shard_of(const wire::Manifest& m, const Mesh& mesh, std::uint32_t rank) {
  return {m.generation, m.iteration, rank, mesh.world()};
}

std::string join(const std::string& directory, const std::string& name) {
  return directory + "/" + name;
}

ShardReport write_own(const std::string& aside, const FlatState& state, FlatRange range,
                      const ShardId& id) {
  ShardReport report;
  // Rank 0 has made it; a network file system may not show it here yet.
  if (::mkdir(aside.c_str(), 0755) != 0 && errno != EEXIST) {
    set_failure(report, write_error("cannot make the directory", aside));
    return report;
  }
  // The digest is made beside the writing: both read the whole shard.
  auto digest = std::async(std::launch::async, [&] { return state.digest(range, id.shard == 0); });
  const auto file = write_shard(aside, state, range, id);
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

// `source` is complete when the device has finished its copies; null: there was no memory for one.
ShardReport write_copy(const std::string& aside, Device& device, const FlatState* source,
                       FlatRange range, const ShardId& id) {
  const Status copied = source != nullptr
                            ? device.finish_copies()
                            : fail("no memory for a copy of what the GPU holds", aside);
  if (copied) return write_own(aside, *source, range, id);
  ShardReport report;
  set_failure(report, copied.error());
  return report;
}

// Rank 0: is the final name free? A good checkpoint of ours stays. What else is there, a damaged
// one or what another user has put there, is moved aside under a name that cannot be foreseen and
// no reader takes.
Result<bool> already_saved(const std::string& path) {
  if (!os::is_taken(path)) return false;
  const auto found = watch::check_own_checkpoint(path, watch::Depth::Content);
  if (found) return true;
  const std::string aside = fmt::format("{}.damaged.{}", path, os::random_hex(4));
  if (::rename(path.c_str(), aside.c_str()) == 0) return false;
  Error error =
      errno_error(errno, "cannot move aside what is there (" + found.error().what + ")", path);
  error.hint = "name a checkpoint.directory where only you can write";
  return fail(std::move(error));
}

Status take_final_name(const std::string& aside, const std::string& path) {
  if (::rename(aside.c_str(), path.c_str()) == 0) return ok();
  const int error = errno;
  STOKER_TRY(already, already_saved(path));  // somebody was faster
  if (!already && ::rename(aside.c_str(), path.c_str()) == 0) return ok();
  return fail(errno_error(error, "cannot rename the finished checkpoint into place", path));
}

// Rank 0, when all shards are written: the manifest, then the final name.
Status publish(const SaveRequest& request, const std::string& aside, Element element,
               const std::vector<ShardReport>& shards, double seconds) {
  wire::Manifest m = request.manifest;
  kernels::StateDigest digest;
  const Mesh& mesh = request.layout.mesh;
  for (std::uint32_t rank = 0; rank < mesh.world(); ++rank) {
    const ShardId id = shard_of(m, mesh, rank);
    m.files.push_back({shard_name(id), shards[rank].size, shards[rank].xxh3});
    const ParameterTable table = request.layout.of_rank(rank);
    for (auto& range : shard_ranges(table, own_range(table, mesh, rank), element, id))
      m.ranges.push_back(std::move(range));
    digest.merge(shards[rank].digest);
  }
  const ParameterTable whole = request.layout.whole();
  for (const Parameter& p : whole.parameters) m.tensors.push_back({p.name, p.shape});
  m.parameters = whole.scalars();
  m.digest = digest.hex();
  m.saved_at = wall_now();
  m.save_seconds = seconds;
  STOKER_TRY(folder, os::OwnFolder::open(aside));
  STOKER_TRY_STATUS(folder.sync());
  STOKER_TRY_STATUS(folder.put(wire::kManifestName, to_json_text(m)));
  const std::string path =
      join(request.directory, wire::checkpoint_name(m.iteration, m.generation));
  STOKER_TRY_STATUS(take_final_name(aside, path));
  return os::sync_directory(request.directory);
}

// Rank 0: makes the directory aside; its suffix. Another user may have put something under the name
// that all could foresee.
Result<std::string> make_aside(const std::string& plain) {
  std::string suffix;
  for (int more = 3;; --more) {
    if (::mkdir((plain + suffix).c_str(), 0755) == 0) return suffix;
    if (errno != EEXIST || more == 0)
      return fail(write_error("cannot make the directory", plain + suffix));
    suffix = "." + os::random_hex(4);
  }
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
  std::vector<ShardReport> all(comm.mesh().world());
  STOKER_TRY_STATUS(
      comm.all_gather(Axis::World, &mine, sizeof mine, all.data(), Call{name, deadline}));
  return all;
}

// What earlier attempts of this generation left behind when they were killed. No attempt starts
// before every process of the older ones is gone, so no process writes there any more.
void remove_leftovers(const SaveRequest& request) {
  const auto names = os::list_directory(request.directory);
  if (!names) return;
  const std::string mark = fmt::format(".g{:06}.partial.", request.manifest.generation.value);
  for (const std::string& name : *names) {
    const auto at = name.find(mark);
    if (!name.starts_with("step-") || at == std::string::npos) continue;
    std::uint32_t attempt = 0;
    const char* begin = name.data() + at + mark.size();
    const auto [end, error] = std::from_chars(begin, name.data() + name.size(), attempt);
    const bool whole = end == name.data() + name.size() || *end == '.';
    if (error != std::errc{} || !whole || attempt > request.attempt.value) continue;
    watch::remove_leftover(request.directory, name, request.manifest.run);
  }
}

// This thread, and those that it starts, give way to the training.
void step_back() {
  constexpr int kLowest = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowest);
}

}  // namespace

Staging::~Staging() {
  for (void* part : pinned_) device_->unpin(part);
}

bool Staging::make_room(const FlatState& state) {
  if (copy_) return true;
  auto room = FlatState::allocate(state.table(), state.dtype());
  if (room) copy_.emplace(std::move(*room));
  return copy_.has_value();
}

void Staging::prepare(const FlatState& state, const Mesh& mesh, std::uint32_t rank) {
  const FlatRange range = own_range(state.table(), mesh, rank);
  if (state.device().is_host()) {
    (void)copy(state, range);
    return;
  }
  if (!make_room(state) || range.size() == 0) return;
  device_ = &state.device();
  const std::size_t each = size_of(state.element());
  for (const StatePart which : {StatePart::Parameter, StatePart::Moment1, StatePart::Moment2}) {
    void* part = static_cast<char*>(copy_->part(which).data) + range.begin * each;
    device_->pin(part, range.size() * each);
    pinned_.push_back(part);
  }
}

const FlatState* Staging::copy(const FlatState& state, FlatRange range) {
  if (!make_room(state)) return nullptr;
  copy_->copy_from(state, range);
  return &*copy_;
}

struct PendingSave::Shard {
  ShardReport report;
};

// Rank 0, before anything is written. ok: 1 go on, 2 already saved, 0 failed.
void PendingSave::make_ready(Shard& ready) const {
  const auto prepare = [&]() -> Status {
    remove_leftovers(request_);
    STOKER_TRY_STATUS(os::make_directories(request_.directory));
    STOKER_TRY(already, already_saved(report_.path));
    ready.report.ok = already ? 2 : 1;
    if (already) return ok();
    STOKER_TRY(suffix, make_aside(aside_));
    std::memcpy(ready.report.suffix, suffix.data(),
                std::min(suffix.size(), sizeof ready.report.suffix - 1));
    return ok();
  };
  if (const Status done = prepare(); !done) set_failure(ready.report, done.error());
}

PendingSave::PendingSave(const FlatState& state, SaveRequest request)
    : element_(state.element()), request_(std::move(request)), began_(monotonic_now()) {
  const wire::Manifest& m = request_.manifest;
  report_.name = wire::checkpoint_name(m.iteration, m.generation);
  report_.path = join(request_.directory, report_.name);
  aside_ = fmt::format("{}.partial.{}", report_.path, request_.attempt.value);
}

// A good checkpoint of this name is there: the same state, or one that must not be replaced.
Status PendingSave::settle(Comm& comm, const FlatState& state) {
  settled_ = true;
  STOKER_TRY(digest, state_digest(comm, state, request_.deadline));
  const auto manifest = watch::read_manifest(report_.path);
  report_.saved = report_.already = manifest && manifest->digest == digest;
  if (!report_.saved)
    report_.why = report_.path +
                  ": holds another state and is never replaced; choose another "
                  "checkpoint.directory or remove it";
  return ok();
}

Result<std::unique_ptr<PendingSave>> PendingSave::begin(Comm& comm, const FlatState& state,
                                                        SaveRequest request, Staging* staging) {
  std::unique_ptr<PendingSave> save(new PendingSave(state, std::move(request)));
  Shard ready;
  if (comm.rank() == 0) save->make_ready(ready);
  STOKER_TRY(plans, gather(comm, ready.report, "save begins", save->request_.deadline));
  if (plans[0].ok == 2) {
    STOKER_TRY_STATUS(save->settle(comm, state));
    return save;
  }
  if (plans[0].ok == 0) {
    fill_failure(save->report_, {plans[0]});
    save->settled_ = true;
    return save;
  }
  save->aside_ += plans[0].suffix;
  const ShardId id = shard_of(save->request_.manifest, comm.mesh(), comm.rank());
  const FlatRange range = own_range(state.table(), comm.mesh(), comm.rank());
  const bool beside = staging != nullptr;
  // The file is written from the CPU's memory: of another device's there is always a copy.
  if (!beside && !state.device().is_host()) staging = &save->own_staging_.emplace();
  const FlatState* source = staging != nullptr ? staging->copy(state, range) : nullptr;
  const bool late = beside && source != nullptr;
  if (source == nullptr && state.device().is_host()) source = &state;
  save->mine_ = std::async(
      late ? std::launch::async : std::launch::deferred,
      [aside = save->aside_, source, &device = state.device(), range, id, late] {
        if (late) step_back();
        return std::make_shared<Shard>(Shard{write_copy(aside, device, source, range, id)});
      });
  return save;
}

bool PendingSave::written() const {
  return settled_ || mine_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
}

Result<SaveReport> PendingSave::finish(Comm& comm) {
  if (settled_) return report_;
  const ShardReport mine = mine_.get()->report;
  settled_ = true;
  STOKER_TRY(shards, gather(comm, mine, "save shards", request_.deadline));
  fill_failure(report_, shards);
  ShardReport done;
  done.ok = 1;
  const bool first = comm.rank() == 0;
  report_.seconds = to_seconds(monotonic_now() - began_);
  if (first && report_.why.empty())
    if (Status published = publish(request_, aside_, element_, shards, report_.seconds); !published)
      set_failure(done, published.error());
  if (first && (!report_.why.empty() || done.ok == 0))
    (void)watch::remove_checkpoint_files(request_.directory,
                                         aside_.substr(request_.directory.size() + 1));
  STOKER_TRY(outcome, gather(comm, done, "save ends", request_.deadline));
  if (report_.why.empty()) fill_failure(report_, {outcome[0]});
  report_.saved = report_.why.empty();
  for (const ShardReport& shard : shards) report_.bytes += shard.size;
  report_.seconds = to_seconds(monotonic_now() - began_);
  return report_;
}

Result<std::string> state_digest(Comm& comm, const FlatState& state, Duration deadline) {
  ShardReport mine;
  mine.ok = 1;
  mine.digest = state.digest(own_range(state.table(), comm.mesh(), comm.rank()), comm.rank() == 0);
  STOKER_TRY(all, gather(comm, mine, "digest", deadline));
  kernels::StateDigest sum;
  for (const ShardReport& shard : all) sum.merge(shard.digest);
  return sum.hex();
}

}  // namespace stoker::train
