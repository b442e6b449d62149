// FlatState: all that a training step changes, in flat buffers of one chunk: parameters in the
// model's type, and beside them gradients, masters and both moments in f32 (f64 for f64 models).
// Where the model computes in the masters' type, parameters and masters are the same memory.
// Everything that works on ranges (optimizer, sums over ranks, checkpoints) works on these; the
// model sees views. With ZeRO a rank owns a range: moments, and masters that are not the
// parameters, exist only there. They are the same buffers, whose other parts nothing touches. All
// of it is the memory of one Device, which computes on it; the CPU reads it through HostView.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/adamw.hpp"
#include "kernels/state_digest.hpp"
#include "worker/train/comm/comm.hpp"
#include "worker/train/device/device.hpp"
#include "worker/train/model/parameter_table.hpp"

namespace stoker::train {

enum class StatePart { Parameter, Moment1, Moment2 };

// What shard `index` of `count` holds: equal parts in steps of 64 elements, the last takes the
// rest.
FlatRange shard_range(std::size_t flat_size, std::uint32_t index, std::uint32_t count);
// What a rank saves of its flat state, and owns with ZeRO: its data-parallel replicas have the
// rest.
FlatRange own_range(const ParameterTable& table, const Mesh& mesh, std::uint32_t rank);

// One parameter's intersection with a FlatRange: elements [first, first + count) of its box.
struct Piece {
  const Parameter* parameter;
  std::size_t first, count;
};
std::vector<Piece> pieces_of(const ParameterTable& table, FlatRange range);
// Only of parameters whose copy on this rank counts: what is saved and digested.
std::vector<Piece> counting_pieces_of(const ParameterTable& table, FlatRange range);

struct ReleaseMemory {
  Device* device = nullptr;
  std::size_t bytes = 0;
  UsedBytes used;
  void operator()(void* memory) const { device->release(memory, bytes, used); }
};

class FlatState {
 public:
  // Errors: not enough memory.
  static Result<FlatState> allocate(ParameterTable table, recipe::Dtype dtype);
  // The device outlives the state.
  static Result<FlatState> allocate(ParameterTable table, recipe::Dtype dtype, FlatRange owned,
                                    Device& device = cpu_device());
  // What such a state comes to: the pages that something touches.
  static std::uint64_t bytes_of(const ParameterTable& table, recipe::Dtype dtype, FlatRange owned);

  [[nodiscard]] Device& device() const { return *device_; }
  [[nodiscard]] const ParameterTable& table() const { return table_; }
  [[nodiscard]] FlatRange owned() const { return owned_; }
  [[nodiscard]] bool owns_all() const { return owned_ == FlatRange{0, table_.flat_size}; }
  [[nodiscard]] recipe::Dtype dtype() const { return dtype_; }
  [[nodiscard]] Element element() const {
    return dtype_ == recipe::Dtype::F64 ? Element::F64 : Element::F32;
  }
  [[nodiscard]] void* parameters() const;  // in dtype()
  [[nodiscard]] Buffer gradients() const { return {gradients_.get(), table_.flat_size, element()}; }
  [[nodiscard]] Buffer gradients(FlatRange range) const;
  [[nodiscard]] Buffer part(StatePart part) const;  // masters, moments
  std::uint64_t steps = 0;                          // optimizer steps made

  // Takes over masters, moments and steps of a state with the same table, over `range`, into the
  // CPU's memory. Complete after other.device().finish_copies().
  void copy_from(const FlatState& other, FlatRange range);

  void initialise(std::uint64_t seed);
  void zero_gradients();
  // Of the parameters that count here, in `range`: the sum over the ranks of a replica, each with
  // all of its state, is the model's.
  [[nodiscard]] double gradient_sum_of_squares(FlatRange range) const;
  // One optimizer step over `range`; `step.weight_decay` is applied to parameters that decay.
  void update(const kernels::AdamwStep& step, FlatRange range);
  // After masters were loaded: the model's parameters are their rounding, in the owned range.
  void refresh_parameters();
  // Over masters and moments that count here; with the number of steps from one rank, the sum of
  // all shards of all ranks is the state's digest.
  [[nodiscard]] kernels::StateDigest digest(FlatRange range, bool with_steps) const;
  // Over masters and moments of one parameter; with ZeRO over the model's parameter, which is all
  // that every rank holds of it.
  [[nodiscard]] kernels::StateDigest digest_of(const Parameter& parameter) const;

 private:
  void add_to(kernels::StateDigest& sum, const Piece& piece) const;
  void round_parameters(FlatRange range);
  template <class T>
  void initialise_by_way_of_cpu(std::uint64_t seed);
  using Memory = std::unique_ptr<void, ReleaseMemory>;

  Device* device_ = nullptr;
  ParameterTable table_;
  recipe::Dtype dtype_ = recipe::Dtype::F32;
  FlatRange owned_;
  Memory parameters_, gradients_, masters_, moment1_, moment2_;
};

// "<tensor>/<part>": the key of a piece in digests.
std::string_view part_name(StatePart part);  // "parameter" | "moment1" | "moment2"

}  // namespace stoker::train
