// Floating-point work of a GPT's training step, in the three conventions in use; always say which
// one a figure follows. Symbols: B samples, s sequence, L layers, h hidden, V vocabulary, N
// parameters.
#pragma once

#include <array>
#include <cstdint>

#include "common/json.hpp"
#include "common/time.hpp"

namespace stoker::recipe {

// legacy_hardware: 24 k B s L h^2 (1 + s/6h + V/16Lh), k = 4 with full recomputation else 3 (and
// then V/12Lh, which
//   Megatron's old formula had wrong); full attention, recomputation counted: the seeds' "TFLOPs".
//   32 for 24 with GLU.
// model: Megatron's current count: causal half of the attention, no recomputation.
// parameters: 6N + 12 L h s a token (nanoGPT).
enum class FlopsConvention { LegacyHardware, Model, Parameters };

struct FlopsShape {
  std::uint64_t layers = 0;
  std::uint64_t hidden = 0;
  std::uint64_t ffn = 0;
  std::uint64_t sequence = 0;
  std::uint64_t vocabulary = 0;
  bool recompute = false;
  bool glu = false;
};

// Operations of one training step on `samples` samples.
double step_flops(FlopsConvention convention, const FlopsShape& shape, std::uint64_t samples);
// TFLOP/s of one device.
double tflops(FlopsConvention convention, const FlopsShape& shape, std::uint64_t samples,
              Duration step, std::uint64_t world);

// Parameters of the GPT (learned positions, tied embedding, biases): V h + s h + L(4h^2 + 2 h f +
// 9h + f) + 2h.
std::uint64_t parameter_count(const FlopsShape& shape);

}  // namespace stoker::recipe

namespace stoker {
template <>
struct EnumNames<recipe::FlopsConvention> {
  static constexpr std::array names{"legacy_hardware", "model", "parameters"};
};
}  // namespace stoker
