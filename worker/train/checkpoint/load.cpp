#include "worker/train/checkpoint/load.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>

namespace stoker::train {
namespace {

using Key = std::pair<std::string, std::string>;  // tensor, part
using Spans = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

Status check_cover(const Key& key, Spans spans, std::uint64_t count) {
  std::sort(spans.begin(), spans.end());
  std::uint64_t at = 0;
  for (const auto& [begin, size] : spans) {
    if (begin != at)
      return fail(fmt::format("{} of {} {} at element {}",
                              begin > at ? "a part is missing" : "two ranges overlap", key.first,
                              key.second, std::min(begin, at)),
                  "manifest");
    at = begin + size;
  }
  if (at != count)
    return fail(fmt::format("{} of {} elements of {} {}", at, count, key.first, key.second),
                "manifest");
  return ok();
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

struct Verdict {  // travels between ranks
  std::uint64_t ok = 1;
  char why[500] = {};
};

Status load_own(FlatState& state, const std::string& path, const wire::Manifest& manifest) {
  if (manifest.without_optimizer)
    return fail("holds no optimizer state: it is a copy for inference", path,
                "resume from a checkpoint that has it");
  STOKER_TRY_STATUS(check_tensors(manifest, state));
  for (const auto& file : manifest.files) {
    std::vector<wire::ManifestRange> ranges;
    for (const auto& range : manifest.ranges)
      if (range.file == file.name) ranges.push_back(range);
    std::sort(ranges.begin(), ranges.end(),
              [](const auto& a, const auto& b) { return a.file_offset < b.file_offset; });
    STOKER_TRY_STATUS(read_shard(path, file, ranges, state));
  }
  STOKER_TRY(position, position_of(manifest));
  state.steps = position.optimizer_steps;
  state.refresh_parameters();
  return ok();
}

}  // namespace

Status check_tensors(const wire::Manifest& manifest, const FlatState& state) {
  std::map<std::string, std::vector<std::uint64_t>> saved;
  for (const auto& tensor : manifest.tensors) saved[tensor.name] = tensor.shape;
  std::map<Key, Spans> spans;
  for (const auto& range : manifest.ranges)
    spans[{range.tensor, range.part}].push_back({range.begin, range.count});
  for (const Parameter& p : state.table().parameters) {
    const auto found = saved.find(p.name);
    if (found == saved.end())
      return fail(fmt::format("the model's {} is missing", p.name), "checkpoint");
    if (found->second != p.shape)
      return fail(fmt::format("{} is {}, the model's is {}", p.name, shape_text(found->second),
                              shape_text(p.shape)),
                  "checkpoint", "check model: in TRAIN.yaml");
    saved.erase(found);
    for (const char* part : {"parameter", "moment1", "moment2"}) {
      const Key key{p.name, part};
      STOKER_TRY_STATUS(check_cover(key, spans[key], p.count));
      spans.erase(key);
    }
  }
  if (!saved.empty())
    return fail(fmt::format("{} is unknown to the model", saved.begin()->first), "checkpoint",
                "check model: in TRAIN.yaml");
  if (!spans.empty())
    return fail(fmt::format("{} {} is unknown to the model", spans.begin()->first.first,
                            spans.begin()->first.second),
                "manifest");
  return ok();
}

Status load_checkpoint(Comm& comm, FlatState& state, const std::string& path,
                       const wire::Manifest& manifest, Duration deadline, bool& peer_lost) {
  peer_lost = false;
  Verdict mine;
  if (Status loaded = load_own(state, path, manifest); !loaded) {
    mine.ok = 0;
    const std::string text = loaded.error().message();
    std::memcpy(mine.why, text.data(), std::min(text.size(), sizeof mine.why - 1));
  }
  std::vector<Verdict> all(comm.mesh().world());
  if (Status done =
          comm.all_gather(Axis::World, &mine, sizeof mine, all.data(), Call{"load", deadline});
      !done) {
    peer_lost = true;
    return done;
  }
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].ok == 0) return fail(fmt::format("rank {}: {}", r, all[r].why), path);
  auto digest = state_digest(comm, state, deadline);
  if (!digest) {
    peer_lost = true;
    return fail(digest.error());
  }
  if (*digest != manifest.digest)
    return fail(fmt::format("the digest of what was loaded is {}, the manifest says {}", *digest,
                            manifest.digest),
                path);
  return ok();
}

Result<Position> position_of(const wire::Manifest& manifest) {
  const std::string object = "manifest: training.position";
  if (!manifest.training.is_object() || !manifest.training.contains("position"))
    return fail("missing", object);
  STOKER_TRY(position, from_json<Position>(manifest.training["position"], object));
  if (position.iteration != manifest.iteration ||
      position.consumed_samples != manifest.consumed_samples)
    return fail("it contradicts the manifest's iteration or consumed samples", object);
  return position;
}

}  // namespace stoker::train
