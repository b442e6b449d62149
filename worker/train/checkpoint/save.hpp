// Saving: every rank writes its shard of the flat state into a directory aside; when all shards are
// on the disk, rank 0 writes the manifest, and renames the directory into place. A directory that
// exists is never written into. What fails leaves nothing behind. In a folder where others write
// too, the directory aside is ours alone, and no link leads what is written elsewhere.
#pragma once

#include <future>
#include <memory>
#include <optional>

#include "worker/train/checkpoint/shard_file.hpp"
#include "worker/train/comm/comm.hpp"

namespace stoker::train {

struct SaveRequest {
  std::string directory;    // of all checkpoints
  wire::Manifest manifest;  // everything but tensors, ranges, files, digest and times
  Attempt attempt;
  Duration deadline;  // for all ranks to have written
  ModelLayout layout;
};

struct SaveReport {  // the same on all ranks
  bool saved = false;
  bool already = false;    // the same state had been saved before
  bool disk_full = false;  // why it was not saved
  std::string why;
  std::string name;
  std::string path;
  std::uint64_t bytes = 0;
  double seconds = 0;
};

// Where asynchronous saves copy a rank's shard to. Kept from save to save: fresh memory for each
// costs more than the copy itself.
class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();
  // Makes room and touches it, so that the first save does not pay for it. Without the memory the
  // training waits for its saves.
  void prepare(const FlatState& state, const Mesh& mesh, std::uint32_t rank);
  // The copy; null without the memory. Valid until the next call.
  const FlatState* copy(const FlatState& state, FlatRange range);

 private:
  bool make_room(const FlatState& state);

  std::optional<FlatState> copy_;
  Device* device_ = nullptr;   // of what is copied
  std::vector<void*> pinned_;  // parts of the copy
};

// A save between its beginning and its end. Asynchronous: the shard is copied first and written
// from a thread, at the lowest priority, while the training goes on; it is not saved before
// finish() says so.
class PendingSave {
 public:
  // Collective. The Error is that of the Comm: a peer was lost. Any other failure is in the report.
  // With a `staging`, which must outlive it, asynchronous; one save at a time.
  static Result<std::unique_ptr<PendingSave>> begin(Comm& comm, const FlatState& state,
                                                    SaveRequest request, Staging* staging);
  [[nodiscard]] bool written() const;  // our own shard is on the disk, or has failed
  [[nodiscard]] Iteration iteration() const { return request_.manifest.iteration; }
  // Collective; waits for the shards of all ranks.
  Result<SaveReport> finish(Comm& comm);

 private:
  struct Shard;
  PendingSave(const FlatState& state, SaveRequest request);
  Status settle(Comm& comm, const FlatState& state);
  void make_ready(Shard& ready) const;

  Element element_;
  SaveRequest request_;
  std::string aside_;
  std::optional<Staging> own_staging_;  // of a save that the training waits for
  std::future<std::shared_ptr<Shard>> mine_;
  SaveReport report_;
  Instant began_;
  bool settled_ = false;  // nothing to write: the report is final
};

// The digest of the whole state: every rank adds its shard. Collective.
Result<std::string> state_digest(Comm& comm, const FlatState& state, Duration deadline);

}  // namespace stoker::train
