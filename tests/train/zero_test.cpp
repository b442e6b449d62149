// ZeRO-1: the same bits as without it, and memory as its formula says.
#include "worker/train/state/zero.hpp"

#include <cstring>
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "recipe/plan.hpp"
#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/comm/self_comm.hpp"
#include "worker/train/state/replicas.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

ParameterTable table_of(const recipe::ModelConfig& model) {
  return gpt_parameters(model, whole_model(model));
}

recipe::ModelConfig small_model() {
  recipe::ModelConfig m;
  m.layers = 2, m.hidden = 16, m.heads = 2, m.ffn = 24, m.sequence = 5, m.vocabulary = 77;
  return m;
}

// Gradients by a rule, as after their sum over the replicas.
void set_gradients(FlatState& state, std::uint64_t step) {
  const auto fill = [&](auto* gradients) {
    for (std::size_t i = 0; i < state.table().flat_size; ++i)
      gradients[i] = static_cast<std::remove_reference_t<decltype(gradients[0])>>(
          static_cast<double>((i * 37 + step * 11) % 101) / 101 - 0.5);
  };
  if (state.element() == Element::F64)
    fill(static_cast<double*>(state.gradients().data));
  else
    fill(static_cast<float*>(state.gradients().data));
}

void train_steps(FlatState& state, Comm& comm) {
  state.initialise(7);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    set_gradients(state, step);
    state.update({1e-2, 0.9, 0.95, 1e-8, 0.1, 1.0, ++state.steps}, state.owned());
    REQUIRE(gather_parameters(comm, state, 60s));
  }
}

std::size_t resident(const void* memory, std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  std::vector<unsigned char> pages((bytes + kPage - 1) / kPage);
  REQUIRE(::mincore(const_cast<void*>(memory), bytes, pages.data()) == 0);
  std::size_t count = 0;
  for (const unsigned char page : pages) count += page & 1u;
  return count * kPage;
}

std::size_t resident(const FlatState& state) {
  std::size_t bytes = resident(state.gradients().data, state.gradients().bytes());
  for (const StatePart part : {StatePart::Parameter, StatePart::Moment1, StatePart::Moment2})
    bytes += resident(state.part(part).data, state.part(part).bytes());
  if (state.dtype() == recipe::Dtype::Bf16)
    bytes += resident(state.parameters(), 2 * state.table().flat_size);
  return bytes;
}

}  // namespace

TEST_CASE("zero: three steps on three replicas -> the state and parameters of one, to the bit") {
  for (const recipe::Dtype dtype : {recipe::Dtype::F64, recipe::Dtype::F32, recipe::Dtype::Bf16}) {
    INFO(name_of(dtype));
    const ParameterTable table = table_of(small_model());
    SelfComm alone;
    auto want = FlatState::allocate(table, dtype).value();
    train_steps(want, alone);
    const Mesh mesh{1, 1, 3};
    FakeHub hub(mesh);
    std::vector<kernels::StateDigest> parts(mesh.world());
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < mesh.world(); ++r)
      threads.emplace_back([&, r] {
        FakeComm comm(hub, r);
        auto state = FlatState::allocate(table, dtype, own_range(table, mesh, r)).value();
        train_steps(state, comm);
        CHECK(std::memcmp(state.parameters(), want.parameters(),
                          table.flat_size * recipe::bytes_per_value(dtype)) == 0);
        CHECK(!find_drift(comm, state, false, 60s).value());
        parts[r] = state.digest(state.owned(), r == 0);
        if (r == 2)  // one bit of one parameter, on one replica
          static_cast<char*>(state.parameters())[0] =
              static_cast<char>(static_cast<char*>(state.parameters())[0] ^ 1);
        const auto drift = find_drift(comm, state, false, 60s).value();
        REQUIRE(drift);
        CHECK(drift->text() ==
              "embedding.word[0, 0]: its parameter on rank 2 differs from that on rank 0 and most "
              "others");
      });
    for (auto& thread : threads) thread.join();
    kernels::StateDigest sum;
    for (const auto& part : parts) sum.merge(part);
    CHECK(sum == want.digest({0, table.flat_size}, true));
  }
}

TEST_CASE("zero: resident memory -> 6 + 12/d bytes a parameter in bf16, 8 + 8/d in f32") {
  recipe::ModelConfig model;
  model.layers = 4, model.hidden = 256, model.heads = 4, model.ffn = 1024;
  model.sequence = 128, model.vocabulary = 5000;
  const ParameterTable table = table_of(model);
  for (const recipe::Dtype dtype : {recipe::Dtype::F32, recipe::Dtype::Bf16})
    for (const std::uint32_t d : {1u, 2u, 4u}) {
      const bool half = dtype == recipe::Dtype::Bf16;
      const Mesh mesh{1, 1, d};
      auto state = FlatState::allocate(table, dtype, own_range(table, mesh, d / 2)).value();
      state.initialise(7);
      state.zero_gradients();
      state.update({1e-2, 0.9, 0.95, 1e-8, 0.1, 1.0, 1}, state.owned());
      const double each =
          static_cast<double>(resident(state)) / static_cast<double>(table.scalars());
      CHECK(each == doctest::Approx(half ? 6 + 12.0 / d : 8 + 8.0 / d).epsilon(0.05));
    }
}
