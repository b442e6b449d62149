#include "worker/train/checkpoint/load.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

#include "watch/checkpoint_scan.hpp"
#include "worker/train/comm/agree.hpp"
#include "worker/train/state/zero.hpp"

namespace stoker::train {
namespace {

using Key = std::pair<std::string, std::string>;  // tensor, part
using Spans = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
constexpr std::size_t kMostBoxes = 1024;  // of one tensor: every two are compared

struct Boxed {  // the ranges of one box of a tensor
  wire::TensorBox box;
  Spans spans;
};

Status check_cover(const Key& key, Spans spans, std::uint64_t count) {
  std::sort(spans.begin(), spans.end());
  std::uint64_t at = 0;
  for (const auto& [begin, size] : spans) {
    if (begin != at || size > count - at)
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

// Every box is covered by its ranges, and the boxes make up the tensor.
Status check_boxes(const Key& key, const std::vector<Boxed>& boxes, const wire::Shape& shape) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    STOKER_TRY_STATUS(check_cover(key, boxes[i].spans, wire::elements_of(boxes[i].box.extent)));
    total += wire::elements_of(boxes[i].box.extent);
    for (std::size_t j = 0; j < i; ++j)
      if (wire::overlap(boxes[i].box, boxes[j].box))
        return fail(fmt::format("two boxes of {} {} overlap", key.first, key.second), "manifest");
  }
  if (total != wire::elements_of(shape))
    return fail(fmt::format("the boxes of {} {} hold {} of {} elements: a part is missing",
                            key.first, key.second, total, wire::elements_of(shape)),
                "manifest");
  return ok();
}

Status note_range(std::vector<Boxed>& boxes, const wire::ManifestRange& range,
                  const wire::Shape& shape) {
  const wire::TensorBox box = range.box.value_or(wire::whole_box(shape));
  if (!wire::fits(box, shape))
    return fail(fmt::format("a box of {} {} is not inside the tensor", range.tensor, range.part),
                "manifest");
  auto found = std::find_if(boxes.begin(), boxes.end(),
                            [&](const Boxed& boxed) { return boxed.box == box; });
  if (found == boxes.end()) {
    if (boxes.size() >= kMostBoxes)
      return fail(fmt::format("{} {} is in too many boxes", range.tensor, range.part), "manifest");
    found = boxes.insert(boxes.end(), Boxed{box, {}});
  }
  found->spans.emplace_back(range.begin, range.count);
  return ok();
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string text = "[";
  for (const std::uint64_t extent : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

Status load_own(FlatState& state, const ParameterTable& whole, const std::string& path,
                const wire::Manifest& manifest) {
  if (manifest.without_optimizer)
    return fail("holds no optimizer state: it is a copy for inference", path,
                "resume from a checkpoint that has it");
  STOKER_TRY_STATUS(check_tensors(manifest, whole));
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

Status check_tensors(const wire::Manifest& manifest, const ParameterTable& whole) {
  std::map<std::string, std::vector<std::uint64_t>> saved;
  for (const auto& tensor : manifest.tensors) saved[tensor.name] = tensor.shape;
  std::map<Key, std::vector<const wire::ManifestRange*>> ranges;
  for (const auto& range : manifest.ranges) ranges[{range.tensor, range.part}].push_back(&range);
  for (const Parameter& p : whole.parameters) {
    const auto found = saved.find(p.name);
    if (found == saved.end())
      return fail(fmt::format("the model's {} is missing", p.name), "checkpoint");
    if (found->second != p.shape)
      return fail(fmt::format("{} is {}, the model's is {}", p.name, shape_text(found->second),
                              shape_text(p.shape)),
                  "checkpoint", "check model: in TRAIN.yaml");
    if (wire::elements_of(p.shape) == 0)
      return fail(fmt::format("{} has more elements than can be", p.name), "checkpoint");
    saved.erase(found);
    for (const std::string part : {"parameter", "moment1", "moment2"}) {
      if (manifest.without_optimizer && part != "parameter") continue;
      const Key key{p.name, part};
      std::vector<Boxed> boxes;
      for (const auto* range : ranges[key]) STOKER_TRY_STATUS(note_range(boxes, *range, p.shape));
      STOKER_TRY_STATUS(check_boxes(key, boxes, p.shape));
      ranges.erase(key);
    }
  }
  if (!saved.empty())
    return fail(fmt::format("{} is unknown to the model", saved.begin()->first), "checkpoint",
                "check model: in TRAIN.yaml");
  if (!ranges.empty())
    return fail(fmt::format("{} {} is unknown to the model", ranges.begin()->first.first,
                            ranges.begin()->first.second),
                "manifest");
  return ok();
}

Status verify_checkpoint(Comm& comm, StoredCheckpoint saved, Duration deadline, bool& peer_lost) {
  peer_lost = false;
  const Status own =
      watch::check_content(saved.path, saved.manifest, comm.rank(), comm.mesh().world());
  return agree(comm, own, saved.path, {"check of the checkpoint", deadline}, peer_lost);
}

Status load_checkpoint(Comm& comm, FlatState& state, const ParameterTable& whole,
                       StoredCheckpoint saved, Duration deadline, bool& peer_lost) {
  peer_lost = false;
  const Status own = load_own(state, whole, saved.path, saved.manifest);
  STOKER_TRY_STATUS(agree(comm, own, saved.path, {"load", deadline}, peer_lost));
  if (Status gathered = gather_parameters(comm, state, deadline); !gathered) {
    peer_lost = true;
    return gathered;
  }
  auto digest = state_digest(comm, state, deadline);
  if (!digest) {
    peer_lost = true;
    return fail(digest.error());
  }
  if (*digest != saved.manifest.digest)
    return fail(fmt::format("the digest of what was loaded is {}, the manifest says {}", *digest,
                            saved.manifest.digest),
                saved.path);
  return ok();
}

Result<Position> position_of(const wire::Manifest& manifest) {
  const std::string object = "manifest: training.position";
  if (!manifest.training.is_object() || !manifest.training.contains("position"))
    return fail("missing", object);
  const Json& saved = manifest.training["position"];
  STOKER_TRY(position, from_json<Position>(saved, object));
  // Builds without a curriculum counted no tokens: every sample had the same.
  if (!saved.contains("consumed_tokens")) position.consumed_tokens = manifest.consumed_tokens;
  if (position.iteration != manifest.iteration ||
      position.consumed_samples != manifest.consumed_samples ||
      position.consumed_tokens != manifest.consumed_tokens)
    return fail("it contradicts the manifest's iteration, consumed samples or tokens", object);
  return position;
}

}  // namespace stoker::train
