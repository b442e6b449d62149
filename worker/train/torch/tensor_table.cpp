#include "worker/train/torch/tensor_table.hpp"

namespace stoker::train {
namespace {

at::ScalarType scalar_type(recipe::Dtype dtype) {
  switch (dtype) {
    case recipe::Dtype::F64: return at::kDouble;
    case recipe::Dtype::F32: return at::kFloat;
    case recipe::Dtype::Bf16: return at::kBFloat16;
  }
  return at::kFloat;
}

at::DeviceType place_of(const Device& device) {
  return std::string_view(device.name()) == "cuda" ? at::kCUDA : at::kCPU;
}

}  // namespace

TensorTable view_tables(FlatState& state, Comm& comm, const ModelOptions& options,
                        const Operators& operators) {
  const at::DeviceType place = place_of(state.device());
  const auto values = at::TensorOptions().device(place).dtype(scalar_type(state.dtype()));
  const auto wide = at::TensorOptions().device(place).dtype(
      state.element() == Element::F64 ? at::kDouble : at::kFloat);
  const auto flat_size = static_cast<std::int64_t>(state.table().flat_size);
  const at::Tensor flat = at::from_blob(state.parameters(), {flat_size}, values);
  const at::Tensor gradients = at::from_blob(state.gradients().data, {flat_size}, wide);
  TensorTable table;
  table.layout = &state.table();
  table.comm = &comm;
  table.deadline = options.deadline;
  table.sequence = options.sequence_parallel && table.is_split();
  table.operators = &operators;
  for (const Parameter& p : state.table().parameters) {
    const std::vector<std::int64_t> shape(p.box.extent.begin(), p.box.extent.end());
    const auto offset = static_cast<std::int64_t>(p.offset);
    const auto count = static_cast<std::int64_t>(p.count);
    table.values.push_back(flat.narrow(0, offset, count).view(shape));
    table.gradients.push_back(gradients.narrow(0, offset, count).view(shape));
  }
  return table;
}

}  // namespace stoker::train
