#include "worker/train/state/flat_state.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>

#include "kernels/global_norm.hpp"
#include "kernels/normal_init.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kShardStep = 64;
constexpr std::array kParts{StatePart::Parameter, StatePart::Moment1, StatePart::Moment2};

// Calls f with a T* of the buffer's type.
template <class F>
auto typed(const Buffer& buffer, F f) {
  return buffer.element == Element::F64 ? f(static_cast<double*>(buffer.data))
                                        : f(static_cast<float*>(buffer.data));
}

template <class T>
void initialise_one(const Parameter& p, std::uint64_t seed, T* out) {
  switch (p.init) {
    case InitKind::Normal:
      wire::for_each_run(p.shape, p.box, 0, p.count, [&](const wire::Run& run) {
        kernels::normal_init(seed, p.name, p.deviation, run.in_tensor, run.count, out + run.in_a);
      });
      break;
    case InitKind::Zero: std::fill_n(out, p.count, T{0}); break;
    case InitKind::One: std::fill_n(out, p.count, T{1}); break;
  }
}

}  // namespace

FlatRange shard_range(std::size_t flat_size, std::uint32_t index, std::uint32_t count) {
  const std::size_t step = (flat_size / count + kShardStep - 1) / kShardStep * kShardStep;
  const std::size_t begin = std::min(flat_size, step * index);
  return {begin, index + 1 == count ? flat_size : std::min(flat_size, begin + step)};
}

std::vector<Piece> pieces_of(const ParameterTable& table, FlatRange range) {
  std::vector<Piece> pieces;
  for (const Parameter& p : table.parameters) {
    const std::size_t begin = std::max(range.begin, p.offset);
    const std::size_t end = std::min(range.end, p.offset + p.count);
    if (begin < end) pieces.push_back({&p, begin - p.offset, end - begin});
  }
  return pieces;
}

std::vector<Piece> counting_pieces_of(const ParameterTable& table, FlatRange range) {
  auto pieces = pieces_of(table, range);
  std::erase_if(pieces, [](const Piece& piece) { return !piece.parameter->counts; });
  return pieces;
}

std::string_view part_name(StatePart part) {
  switch (part) {
    case StatePart::Parameter: return "parameter";
    case StatePart::Moment1: return "moment1";
    case StatePart::Moment2: return "moment2";
  }
  return "";
}

void UnmapMemory::operator()(void* memory) const {
  ::munmap(memory, bytes);
}

Result<FlatState::Memory> FlatState::map(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return fail(errno_error(errno, fmt::format("cannot get {} bytes for the training state", bytes),
                            "memory", "use a smaller model or more ranks"));
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  return Memory(memory, UnmapMemory{bytes});
}

Result<FlatState> FlatState::allocate(ParameterTable table, recipe::Dtype dtype) {
  FlatState state;
  state.table_ = std::move(table);
  state.dtype_ = dtype;
  const std::size_t bytes = state.table_.flat_size * size_of(state.element());
  for (Memory* memory : {&state.gradients_, &state.masters_, &state.moment1_, &state.moment2_}) {
    auto mapped = map(bytes);
    if (!mapped) return fail(mapped.error());
    *memory = std::move(*mapped);
  }
  if (dtype == recipe::Dtype::Bf16) {
    auto mapped = map(state.table_.flat_size * sizeof(kernels::Bf16));
    if (!mapped) return fail(mapped.error());
    state.parameters_ = std::move(*mapped);
  }
  return state;
}

void* FlatState::parameters() const {
  return parameters_ ? parameters_.get() : masters_.get();
}

Buffer FlatState::part(StatePart part) const {
  switch (part) {
    case StatePart::Parameter: return {masters_.get(), table_.flat_size, element()};
    case StatePart::Moment1: return {moment1_.get(), table_.flat_size, element()};
    case StatePart::Moment2: return {moment2_.get(), table_.flat_size, element()};
  }
  return {};
}

void FlatState::copy_from(const FlatState& other, FlatRange range) {
  const std::size_t each = size_of(element()), at = range.begin * each;
  for (const StatePart which : kParts)
    std::memcpy(static_cast<char*>(part(which).data) + at,
                static_cast<const char*>(other.part(which).data) + at, range.size() * each);
  steps = other.steps;
}

void FlatState::initialise(std::uint64_t seed) {
  for (const Parameter& p : table_.parameters)
    typed(part(StatePart::Parameter),
          [&](auto* masters) { initialise_one(p, seed, masters + p.offset); });
  for (const StatePart moment : {StatePart::Moment1, StatePart::Moment2})
    std::memset(part(moment).data, 0, part(moment).bytes());
  steps = 0;
  refresh_parameters();
}

void FlatState::zero_gradients() {
  std::memset(gradients_.get(), 0, gradients().bytes());
}

Buffer FlatState::gradients(FlatRange range) const {
  return {static_cast<char*>(gradients_.get()) + range.begin * size_of(element()), range.size(),
          element()};
}

double FlatState::gradient_sum_of_squares() const {
  // The padding between parameters is never written: zeros. Neighbours that count are one sum.
  double total = 0;
  const auto& all = table_.parameters;
  for (std::size_t i = 0; i < all.size();) {
    const std::size_t begin = i;
    while (i < all.size() && all[i].counts) ++i;
    if (begin < i) {
      const FlatRange range{all[begin].offset, i < all.size() ? all[i].offset : table_.flat_size};
      total += typed(gradients(range),
                     [&](auto* g) { return kernels::sum_of_squares(g, range.size()); });
    }
    while (i < all.size() && !all[i].counts) ++i;
  }
  return total;
}

void FlatState::update(kernels::AdamwStep step, FlatRange range) {
  const double decay = step.weight_decay;
  auto* rounded = static_cast<kernels::Bf16*>(parameters_.get());
  for (const Piece& piece : pieces_of(table_, range)) {
    step.weight_decay = piece.parameter->decays() ? decay : 0;
    const std::size_t at = piece.parameter->offset + piece.first;
    typed(gradients(), [&]<class T>(T* gradient) {
      kernels::adamw(
          step, kernels::AdamwRange<T>{gradient + at, static_cast<T*>(masters_.get()) + at,
                                       static_cast<T*>(moment1_.get()) + at,
                                       static_cast<T*>(moment2_.get()) + at,
                                       rounded != nullptr ? rounded + at : nullptr, piece.count});
    });
  }
}

void FlatState::refresh_parameters() {
  if (!parameters_) return;
  auto* rounded = static_cast<kernels::Bf16*>(parameters_.get());
  const auto* masters = static_cast<const float*>(masters_.get());
  for (std::size_t i = 0; i < table_.flat_size; ++i) rounded[i] = kernels::to_bf16(masters[i]);
}

void FlatState::add_to(kernels::StateDigest& sum, const Piece& piece) const {
  const Parameter& p = *piece.parameter;
  for (const StatePart which : kParts) {
    const std::string key = fmt::format("{}/{}", p.name, part_name(which));
    typed(part(which), [&](auto* values) {
      wire::for_each_run(p.shape, p.box, piece.first, piece.count, [&](const wire::Run& run) {
        sum.add(key, run.in_tensor, values + p.offset + run.in_a, run.count);
      });
    });
  }
}

kernels::StateDigest FlatState::digest(FlatRange range, bool with_steps) const {
  kernels::StateDigest sum;
  for (const Piece& piece : counting_pieces_of(table_, range)) add_to(sum, piece);
  if (with_steps) sum.add("optimizer/steps", steps);
  return sum;
}

kernels::StateDigest FlatState::digest_of(const Parameter& parameter) const {
  kernels::StateDigest sum;
  add_to(sum, {&parameter, 0, parameter.count});
  return sum;
}

}  // namespace stoker::train
