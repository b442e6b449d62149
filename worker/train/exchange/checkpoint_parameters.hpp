// The parameters of a checkpoint of any mesh as whole tensors, read a few MiB at a time: for
// exports, and for what only computes with a trained model. The masters; moments are left alone.
#pragma once

#include <functional>
#include <optional>

#include "wire/checkpoint_manifest.hpp"
#include "worker/train/state/flat_state.hpp"

namespace stoker::train {

class CheckpointParameters {
 public:
  // Reads and compares every byte first. Also a copy for inference (without optimizer).
  static Result<CheckpointParameters> open(const std::string& path);

  [[nodiscard]] const wire::Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const recipe::ModelConfig& model() const { return model_; }
  [[nodiscard]] const ParameterTable& whole() const { return whole_; }
  [[nodiscard]] Element element() const { return element_; }

  // Elements [first, first + count) of the tensor in row-major order; each once, in any order.
  using Sink = std::function<void(std::uint64_t first, std::uint64_t count, const char* bytes)>;
  Status read(const Parameter& parameter, const Sink& sink) const;
  // The whole model's state of this type; its moments are zeros.
  Result<FlatState> load(recipe::Dtype dtype) const;
  // The type of the masters.
  [[nodiscard]] recipe::Dtype dtype() const {
    return element_ == Element::F64 ? recipe::Dtype::F64 : recipe::Dtype::F32;
  }
  // Prefix of the tokenizer's files: `asked`, else that of the training's first data set, from the
  // working directory or from the checkpoint's run. Empty: no file was found.
  [[nodiscard]] std::string tokenizer(const std::optional<std::string>& asked) const;

 private:
  Status read_range(const wire::ManifestRange& range, const wire::Shape& shape,
                    const Sink& sink) const;

  std::string path_;
  wire::Manifest manifest_;
  recipe::ModelConfig model_;
  ParameterTable whole_;
  Element element_ = Element::F32;
};

}  // namespace stoker::train
