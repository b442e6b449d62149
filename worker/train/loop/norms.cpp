#include "worker/train/loop/norms.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "kernels/global_norm.hpp"
#include "wire/step_losses.hpp"

namespace stoker::train {
namespace {

// Of each parameter: 0 the embedding, 1 + n layer n, then the final norm.
std::vector<std::size_t> groups_of(const ParameterTable& table, std::uint64_t layers) {
  std::vector<std::size_t> group(table.parameters.size(), 0);
  if (table.final_norm) group[*table.final_norm] = group[*table.final_norm + 1] = layers + 1;
  for (const auto& [layer, first] : table.blocks)
    for (std::size_t i = first; i < first + kPerBlock; ++i) group[i] = layer + 1;
  return group;
}

template <class F>
double over(const FlatState& state, const Buffer& buffer, std::size_t first, std::size_t count,
            F f) {
  const std::size_t each = size_of(buffer.element);
  const HostView view(state.device(), static_cast<const char*>(buffer.data) + first * each,
                      count * each);
  return buffer.element == Element::F64 ? f(static_cast<const double*>(view.data()), count)
                                        : f(static_cast<const float*>(view.data()), count);
}

}  // namespace

Result<Norms> measure_norms(Comm& comm, const FlatState& state, std::uint64_t layers,
                            Duration deadline) {
  const ParameterTable& table = state.table();
  const auto group = groups_of(table, layers);
  const std::size_t groups = layers + 2;
  std::vector<double> sums(groups + 2, 0.0);
  const auto squares = [](auto* values, std::size_t count) {
    return kernels::sum_of_squares(values, count);
  };
  const auto zeros = [](auto* values, std::size_t count) {
    return static_cast<double>(std::count(values, values + count, 0));
  };
  // Each replica its own range: of gradients, it has no other's sums with ZeRO.
  for (const Piece& piece : counting_pieces_of(table, own_range(table, comm.mesh(), comm.rank()))) {
    const Parameter& p = *piece.parameter;
    const std::size_t at = p.offset + piece.first;
    const Buffer gradients = state.gradients(), masters = state.part(StatePart::Parameter);
    const auto place = static_cast<std::size_t>(&p - table.parameters.data());
    sums[group[place]] += over(state, gradients, at, piece.count, squares);
    sums[groups] += over(state, masters, at, piece.count, squares);
    sums[groups + 1] += over(state, gradients, at, piece.count, zeros);
  }
  STOKER_TRY_STATUS(comm.all_reduce(Axis::World, Reduce::Sum,
                                    {sums.data(), sums.size(), Element::F64}, {"norms", deadline}));
  Norms norms;
  for (std::size_t i = 0; i < groups; ++i)
    norms.groups.push_back({wire::layer_group_name(i, groups), std::sqrt(sums[i])});
  norms.parameters = std::sqrt(sums[groups]);
  norms.zeros = sums[groups + 1];
  return norms;
}

std::string format_norms_line(Iteration iteration, const Norms& norms) {
  std::string line = fmt::format(" gradient norms at iteration {} |", iteration.value);
  for (const Norms::Group& group : norms.groups)
    line += fmt::format(" {}: {:.4g} |", group.name, group.gradients);
  return line;
}

}  // namespace stoker::train
