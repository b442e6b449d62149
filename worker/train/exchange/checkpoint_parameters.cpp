#include "worker/train/exchange/checkpoint_parameters.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "watch/checkpoint_scan.hpp"
#include "worker/train/checkpoint/audit.hpp"
#include "worker/train/checkpoint/load.hpp"

namespace stoker::train {
namespace {

constexpr std::uint64_t kPiece = 4u << 20;  // bytes read at a time
constexpr const char* kParameter = "parameter";

Status read_exactly(int fd, std::uint64_t at, std::size_t size, char* to, const std::string& path) {
  while (size > 0) {
    const ssize_t n = ::pread(fd, to, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(errno_error(errno, "cannot read", path));
    if (n == 0) return fail("ends too early", path);
    to += n;
    at += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
  return ok();
}

Status check_ranges(const wire::Manifest& manifest, const std::string& dtype) {
  for (const auto& range : manifest.ranges) {
    if (range.part != kParameter) continue;
    const auto file = std::find_if(manifest.files.begin(), manifest.files.end(),
                                   [&](const auto& f) { return f.name == range.file; });
    const std::uint64_t each = dtype == "f64" ? 8 : 4;
    if (file == manifest.files.end() || range.dtype != dtype || range.file_offset > file->size ||
        range.count > (file->size - range.file_offset) / each)
      return fail(fmt::format("the range of {} does not fit its file", range.tensor), "manifest");
  }
  return ok();
}

}  // namespace

Result<CheckpointParameters> CheckpointParameters::open(const std::string& path) {
  CheckpointParameters self;
  self.path_ = path;
  STOKER_TRY(manifest, watch::check_checkpoint(path, watch::Depth::Content));
  self.manifest_ = std::move(manifest);
  STOKER_TRY(model, model_of(self.manifest_));
  self.model_ = model;
  if (model.layers > self.manifest_.tensors.size())  // before a table of that size is made
    return fail(fmt::format("its model has {} layers, and it has {} tensors", model.layers,
                            self.manifest_.tensors.size()),
                path, "the manifest is damaged, or not of stoker-train");
  self.whole_ = gpt_parameters(model, whole_model(model));
  STOKER_TRY_STATUS(check_tensors(self.manifest_, self.whole_));
  const std::string dtype = self.manifest_.ranges.empty() ? "" : self.manifest_.ranges[0].dtype;
  if (dtype != "f32" && dtype != "f64")
    return fail(fmt::format("unknown dtype \"{}\"", dtype), path);
  self.element_ = dtype == "f64" ? Element::F64 : Element::F32;
  STOKER_TRY_STATUS(check_ranges(self.manifest_, dtype));
  return self;
}

Status CheckpointParameters::read(const Parameter& parameter, const Sink& sink) const {
  for (const auto& range : manifest_.ranges)
    if (range.part == kParameter && range.tensor == parameter.name)
      STOKER_TRY_STATUS(read_range(range, parameter.shape, sink));
  return ok();
}

Status CheckpointParameters::read_range(const wire::ManifestRange& range, const wire::Shape& shape,
                                        const Sink& sink) const {
  const std::string path = path_ + "/" + range.file;
  const os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  const std::size_t each = size_of(element_);
  const wire::TensorBox box = range.box.value_or(wire::whole_box(shape));
  std::vector<char> piece(std::min(kPiece, range.count * each));
  for (std::uint64_t done = 0; done < range.count;) {
    const std::uint64_t count = std::min<std::uint64_t>(kPiece / each, range.count - done);
    STOKER_TRY_STATUS(
        read_exactly(fd.get(), range.file_offset + done * each, count * each, piece.data(), path));
    wire::for_each_run(shape, box, range.begin + done, count, [&](const wire::Run& run) {
      sink(run.in_tensor, run.count, piece.data() + run.in_b * each);
    });
    done += count;
  }
  return ok();
}

Result<FlatState> CheckpointParameters::load(recipe::Dtype dtype) const {
  STOKER_TRY(state, FlatState::allocate(whole_, dtype));
  if (state.element() != element_)
    return fail("holds numbers of another type than the model's", path_);
  const std::size_t each = size_of(element_);
  for (const Parameter& p : state.table().parameters)
    STOKER_TRY_STATUS(read(p, [&](std::uint64_t first, std::uint64_t count, const char* bytes) {
      std::memcpy(
          static_cast<char*>(state.part(StatePart::Parameter).data) + (p.offset + first) * each,
          bytes, count * each);
    }));
  state.refresh_parameters();
  return std::move(state);
}

std::string CheckpointParameters::tokenizer(const std::optional<std::string>& asked) const {
  if (asked) return *asked;
  const auto& training = manifest_.training;
  if (!training.is_object() || !training.contains("tokenizer") ||
      !training["tokenizer"].is_string())
    return "";
  const auto prefix = training["tokenizer"].get<std::string>();
  const auto run = std::filesystem::absolute(path_).lexically_normal().parent_path().parent_path();
  for (const std::string& place : {prefix, (run / prefix).string()})
    if (os::exists(place + ".tokenizer.json")) return place;
  return "";
}

}  // namespace stoker::train
