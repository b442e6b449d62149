#include "worker/train/state/flat_state.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <future>
#include <thread>

#include "common/hash.hpp"
#include "kernels/normal_init.hpp"
#include "recipe/plan.hpp"

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

FlatRange own_range(const ParameterTable& table, const Mesh& mesh, std::uint32_t rank) {
  return shard_range(table.flat_size, mesh.data_rank(rank), mesh.dp);
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

Result<FlatState> FlatState::allocate(ParameterTable table, recipe::Dtype dtype) {
  const FlatRange all{0, table.flat_size};
  return allocate(std::move(table), dtype, all);
}

Result<FlatState> FlatState::allocate(ParameterTable table, recipe::Dtype dtype, FlatRange owned,
                                      Device& device) {
  FlatState state;
  state.device_ = &device;
  state.table_ = std::move(table);
  state.dtype_ = dtype;
  state.owned_ = owned;
  const FlatRange all{0, state.table_.flat_size};
  const bool rounds = dtype == recipe::Dtype::Bf16;
  const auto get = [&](Memory& memory, std::size_t each, FlatRange used) -> Status {
    const UsedBytes bytes{used.begin * each, used.end * each};
    STOKER_TRY(fresh, device.allocate(all.size() * each, bytes));
    memory = Memory(fresh, ReleaseMemory{&device, all.size() * each, bytes});
    return ok();
  };
  const std::size_t wide = size_of(state.element());
  STOKER_TRY_STATUS(get(state.gradients_, wide, all));
  STOKER_TRY_STATUS(get(state.masters_, wide, rounds ? owned : all));
  STOKER_TRY_STATUS(get(state.moment1_, wide, owned));
  STOKER_TRY_STATUS(get(state.moment2_, wide, owned));
  if (rounds) STOKER_TRY_STATUS(get(state.parameters_, sizeof(kernels::Bf16), all));
  return state;
}

std::uint64_t FlatState::bytes_of(const ParameterTable& table, recipe::Dtype dtype,
                                  FlatRange owned) {
  const std::uint64_t wide = dtype == recipe::Dtype::F64 ? sizeof(double) : sizeof(float);
  const std::uint64_t all = table.flat_size, own = owned.size();
  const bool rounds = dtype == recipe::Dtype::Bf16;
  const std::uint64_t gradients = wide * all, masters = wide * (rounds ? own : all);
  return gradients + masters + 2 * wide * own + (rounds ? sizeof(kernels::Bf16) * all : 0);
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
    other.device().download_beside(static_cast<char*>(part(which).data) + at,
                                   static_cast<const char*>(other.part(which).data) + at,
                                   range.size() * each);
  steps = other.steps;
}

void FlatState::initialise(std::uint64_t seed) {
  typed(part(StatePart::Parameter), [&]<class T>(T* masters) {
    if (!device_->is_host()) return initialise_by_way_of_cpu<T>(seed);
    for (const Parameter& p : table_.parameters) initialise_one(p, seed, masters + p.offset);
  });
  const std::size_t each = size_of(element());
  for (const StatePart moment : {StatePart::Moment1, StatePart::Moment2})
    device_->clear(static_cast<char*>(part(moment).data) + owned_.begin * each,
                   owned_.size() * each);
  steps = 0;
  if (device_->is_host()) round_parameters({0, table_.flat_size});
  if (parameters_)
    device_->keep_only(masters_.get(), table_.flat_size * each,
                       {owned_.begin * each, owned_.end * each});
}

// Of masters that a device does not hold there are only the rounded parameters. Values are made by
// several threads and uploaded by this one.
template <class T>
void FlatState::initialise_by_way_of_cpu(std::uint64_t seed) {
  struct Fresh {
    std::vector<T> values;
    std::vector<kernels::Bf16> rounded;
  };
  const bool rounds = parameters_ != nullptr;
  const auto make = [seed, rounds](const Parameter* p) {
    Fresh fresh{std::vector<T>(p->count), std::vector<kernels::Bf16>(rounds ? p->count : 0)};
    initialise_one(*p, seed, fresh.values.data());
    for (std::size_t i = 0; i < fresh.rounded.size(); ++i)
      fresh.rounded[i] = kernels::to_bf16(static_cast<float>(fresh.values[i]));
    return fresh;
  };
  constexpr std::size_t kMostThreads = 8;
  const std::size_t most =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  const auto& all = table_.parameters;
  auto* masters = static_cast<T*>(masters_.get());
  std::deque<std::future<Fresh>> made;
  for (std::size_t i = 0, asked = 0; i < all.size(); ++i, made.pop_front()) {
    for (; asked < all.size() && made.size() < most; ++asked)
      made.push_back(std::async(std::launch::async, make, &all[asked]));
    const Fresh fresh = made.front().get();
    const Parameter& p = all[i];
    if (!rounds) {
      device_->upload(masters + p.offset, fresh.values.data(), p.count * sizeof(T));
      continue;
    }
    for (const Piece& piece : pieces_of(table_, owned_))
      if (piece.parameter == &p)
        device_->upload(masters + p.offset + piece.first, fresh.values.data() + piece.first,
                        piece.count * sizeof(T));
    device_->upload(static_cast<kernels::Bf16*>(parameters_.get()) + p.offset, fresh.rounded.data(),
                    p.count * sizeof(kernels::Bf16));
  }
}

void FlatState::zero_gradients() {
  device_->clear(gradients_.get(), gradients().bytes());
}

Buffer FlatState::gradients(FlatRange range) const {
  return {static_cast<char*>(gradients_.get()) + range.begin * size_of(element()), range.size(),
          element()};
}

double FlatState::gradient_sum_of_squares(FlatRange range) const {
  // The padding between parameters is never written: zeros. Neighbours that count are one sum.
  double total = 0;
  const auto& all = table_.parameters;
  for (std::size_t i = 0; i < all.size();) {
    const std::size_t begin = i;
    while (i < all.size() && all[i].counts) ++i;
    if (begin < i) {
      const std::size_t end = i < all.size() ? all[i].offset : table_.flat_size;
      const FlatRange here{std::max(range.begin, all[begin].offset), std::min(range.end, end)};
      if (here.begin < here.end) total += device_->sum_of_squares(gradients(here));
    }
    while (i < all.size() && !all[i].counts) ++i;
  }
  return total;
}

// The padding between parameters decays too: it is zeros.
void FlatState::update(const kernels::AdamwStep& step, FlatRange range) {
  std::vector<std::uint64_t> exempt;
  for (const Piece& piece : pieces_of(table_, range)) {
    if (piece.parameter->decays()) continue;
    const std::uint64_t at = piece.parameter->offset + piece.first - range.begin;
    if (!exempt.empty() && exempt.back() == at)
      exempt.back() += piece.count;
    else
      exempt.insert(exempt.end(), {at, at + piece.count});
  }
  const std::size_t at = range.begin;
  auto* rounded = static_cast<kernels::Bf16*>(parameters_.get());
  typed(gradients(), [&]<class T>(T* gradient) {
    device_->adamw(step,
                   kernels::AdamwRange<T>{
                       gradient + at, static_cast<T*>(masters_.get()) + at,
                       static_cast<T*>(moment1_.get()) + at, static_cast<T*>(moment2_.get()) + at,
                       rounded != nullptr ? rounded + at : nullptr, range.size()},
                   exempt);
  });
}

void FlatState::refresh_parameters() {
  round_parameters(owned_);
}

void FlatState::round_parameters(FlatRange range) {
  if (!parameters_) return;
  device_->round(static_cast<const float*>(masters_.get()) + range.begin,
                 static_cast<kernels::Bf16*>(parameters_.get()) + range.begin, range.size());
}

void FlatState::add_to(kernels::StateDigest& sum, const Piece& piece) const {
  const Parameter& p = *piece.parameter;
  for (const StatePart which : kParts) {
    const std::string key = fmt::format("{}/{}", p.name, part_name(which));
    typed(part(which), [&](auto* values) {
      wire::for_each_run(p.shape, p.box, piece.first, piece.count, [&](const wire::Run& run) {
        device_->add_digest(sum, key, run.in_tensor,
                            {values + p.offset + run.in_a, run.count, element()});
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
  if (owns_all()) {
    add_to(sum, {&parameter, 0, parameter.count});
  } else {
    const std::size_t each = recipe::bytes_per_value(dtype_);
    const HostView view(*device_, static_cast<const char*>(parameters()) + parameter.offset * each,
                        parameter.count * each);
    sum.low = xxh3_64({static_cast<const char*>(view.data()), parameter.count * each});
  }
  return sum;
}

}  // namespace stoker::train
