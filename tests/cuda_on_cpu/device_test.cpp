// Flat state, optimizer, checks and saving on a CudaDevice: the bits of the CPU's. On the emulated
// device its memory is poisoned for the CPU, and streams run late.
#include <doctest/doctest.h>

#include "recipe/plan.hpp"
#include "tests/cuda_on_cpu/lazy.hpp"
#include "tests/folder.hpp"
#include "watch/checkpoint_scan.hpp"
#include "worker/train/checkpoint/load.hpp"
#include "worker/train/checkpoint/save.hpp"
#include "worker/train/comm/self_comm.hpp"
#include "worker/train/device/cuda_device.hpp"
#include "worker/train/loop/norms.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

recipe::ModelConfig small_model() {
  recipe::ModelConfig m;
  m.layers = 2, m.hidden = 16, m.heads = 2, m.ffn = 24, m.sequence = 5, m.vocabulary = 77;
  return m;
}

ModelLayout layout() {
  return {small_model(), Mesh{}, {0}};
}

FlatState state_on(Device& device, recipe::Dtype dtype) {
  ParameterTable table = layout().of_rank(0);
  const FlatRange all{0, table.flat_size};
  return FlatState::allocate(std::move(table), dtype, all, device).value();
}

// Gradients by a rule, as after a backward pass.
void set_gradients(FlatState& state, std::uint64_t step) {
  std::vector<float> values(state.table().flat_size);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 37 + step * 11) % 101) / 101.0f - 0.5f;
  for (const Parameter& p : state.table().parameters)
    state.device().upload(static_cast<float*>(state.gradients().data) + p.offset,
                          values.data() + p.offset, p.count * sizeof(float));
}

void step(FlatState& state, std::uint64_t number) {
  state.zero_gradients();
  set_gradients(state, number);
  state.update({1e-2, 0.9, 0.95, 1e-8, 0.1, 0.5, ++state.steps}, state.owned());
}

std::vector<char> parameters_of(const FlatState& state) {
  std::vector<char> bytes(state.table().flat_size * recipe::bytes_per_value(state.dtype()));
  state.device().download(bytes.data(), state.parameters(), bytes.size());
  return bytes;
}

std::string digest_of(const FlatState& state) {
  return state.digest({0, state.table().flat_size}, true).hex();
}

SaveRequest request_for(const std::string& directory) {
  SaveRequest request;
  request.directory = directory;
  request.manifest.iteration = Iteration(5);
  request.manifest.training = Json{{"position", Position{Iteration(5)}}};
  request.manifest.training["position"]["optimizer_steps"] = 3;
  request.attempt = Attempt(1);
  request.deadline = 60s;
  request.layout = layout();
  return request;
}

}  // namespace

TEST_CASE("CudaDevice: initial weights and three steps of AdamW -> the CPU's bits, f32 and bf16") {
  const Lazy lazy;
  const auto gpu = open_cuda(0).value();
  for (const recipe::Dtype dtype : {recipe::Dtype::F32, recipe::Dtype::Bf16}) {
    INFO(name_of(dtype));
    FlatState want = state_on(cpu_device(), dtype), got = state_on(*gpu, dtype);
    want.initialise(7);
    got.initialise(7);
    CHECK(parameters_of(got) == parameters_of(want));
    for (std::uint64_t i = 1; i <= 3; ++i) {
      step(want, i);
      step(got, i);
    }
    CHECK(parameters_of(got) == parameters_of(want));
    CHECK(digest_of(got) == digest_of(want));
    for (const Parameter& p : want.table().parameters) CHECK(got.digest_of(p) == want.digest_of(p));
    const double norm = want.gradient_sum_of_squares(want.owned());
    CHECK(std::abs(got.gradient_sum_of_squares(got.owned()) - norm) <= 1e-14 * norm);
    SelfComm alone;
    const auto a = measure_norms(alone, want, 2, 1s), b = measure_norms(alone, got, 2, 1s);
    CHECK(format_norms_line(Iteration(1), *a) == format_norms_line(Iteration(1), *b));
    CHECK(gpu->status());
  }
}

TEST_CASE("CudaDevice: saved beside three more steps -> what was there when the save began") {
  const Lazy lazy;
  const auto gpu = open_cuda(0).value();
  SelfComm alone;
  for (const bool beside : {false, true}) {
    const stoker::testing::Folder folder;
    FlatState state = state_on(*gpu, recipe::Dtype::Bf16);
    state.initialise(9);
    for (std::uint64_t i = 1; i <= 3; ++i) step(state, i);
    const std::string want = digest_of(state);
    Staging staging;
    if (beside) staging.prepare(state, Mesh{}, 0);
    auto save = PendingSave::begin(alone, state, request_for(folder / "checkpoints"),
                                   beside ? &staging : nullptr);
    REQUIRE(save);
    if (beside)
      for (std::uint64_t i = 4; i <= 6; ++i) step(state, i);
    const auto report = (*save)->finish(alone);
    REQUIRE(report);
    CHECK_MESSAGE(report->saved, report->why);
    const auto manifest = watch::read_manifest(report->path).value();
    CHECK(manifest.digest == want);
    FlatState loaded = state_on(*gpu, recipe::Dtype::Bf16);
    bool peer_lost = false;
    const Status done =
        load_checkpoint(alone, loaded, layout().whole(), {report->path, manifest}, 60s, peer_lost);
    REQUIRE_MESSAGE(done, done.error().message());
    CHECK(digest_of(loaded) == want);
    CHECK((beside || parameters_of(loaded) == parameters_of(state)));
  }
}

TEST_CASE("CudaDevice: recorded masks -> nothing yet; each replay has those of the samples then") {
  const Lazy lazy;
  const auto gpu = open_cuda(0).value();
  constexpr std::size_t kEach = 1003, kSamples = 3, kBytes = kEach * kSamples * sizeof(float);
  constexpr double kP = 0.3;
  const kernels::DropoutKey key{11, 0, 5, kernels::DropoutSite::MlpOut};
  auto* ids = static_cast<std::uint64_t*>(gpu->allocate(64, {0, 64}).value());
  auto* masks = static_cast<float*>(gpu->allocate(kBytes, {0, kBytes}).value());
  std::vector<float> got(kEach * kSamples), want(got.size());
  void* const before = gpu->stream();
  const auto recorded = gpu->record([&](void* stream) {
    CHECK(gpu->stream() == stream);
    gpu->dropout_masks(key, kP, 8, kEach, {ids, kSamples}, masks);
    gpu->reduce_into({masks, kEach, Element::F32}, masks + kEach, Reduce::Sum);
  });
  REQUIRE(recorded != nullptr);
  CHECK(gpu->stream() == before);
  gpu->download(got.data(), masks, kBytes);
  CHECK(got == want);  // zeros
  for (const std::uint64_t first : {std::uint64_t{7}, std::uint64_t{1} << 40}) {
    const std::uint64_t now[kSamples] = {first, first + 9, first * 3};
    gpu->upload(ids, now, sizeof now);
    recorded->replay();
    gpu->download(got.data(), masks, kBytes);
    cpu_device().dropout_masks(key, kP, 8, kEach, {now, kSamples}, want.data());
    reduce_into({want.data(), kEach, Element::F32}, want.data() + kEach, Reduce::Sum);
    CHECK(got == want);
  }
  CHECK(gpu->status());
  gpu->release(ids, 64, {0, 64});
  gpu->release(masks, kBytes, {0, kBytes});
}

TEST_CASE(
    "CudaDevice: what is recorded throws or waits -> thrown on; none; then it records again") {
  const Lazy lazy;
  const auto gpu = open_cuda(0).value();
  void* memory = gpu->allocate(64, {0, 64}).value();
  const auto clear = [&](void*) { gpu->clear(memory, 64); };
  CHECK_THROWS_AS(gpu->record([](void*) { throw std::runtime_error("no memory"); }),
                  std::runtime_error);
  CHECK(gpu->record([&](void* stream) {
    clear(stream);
    CHECK(gpu->query(stream) != 0);
  }) == nullptr);
  const std::vector<char> ones(64, 1), zeros(64);
  std::vector<char> out(64);
  gpu->upload(memory, ones.data(), 64);
  const auto recorded = gpu->record(clear);
  REQUIRE(recorded != nullptr);
  gpu->download(out.data(), memory, 64);
  CHECK(out == ones);
  recorded->replay();
  gpu->download(out.data(), memory, 64);
  CHECK(out == zeros);
  gpu->release(memory, 64, {0, 64});
}

TEST_CASE("CudaDevice: sums and larger ones, odd counts -> the CPU's bits") {
  const Lazy lazy;
  const auto gpu = open_cuda(0).value();
  for (const std::size_t count : {1u, 255u, 5003u}) {
    std::vector<float> a(count), b(count);
    for (std::size_t i = 0; i < count; ++i)
      a[i] = 1.0f / static_cast<float>(i + 3), b[i] = static_cast<float>(i % 7) * 0.37f;
    const std::size_t bytes = count * sizeof(float);
    for (const Reduce how : {Reduce::Sum, Reduce::Max}) {
      void* total = gpu->allocate(bytes, {0, bytes}).value();
      void* next = gpu->allocate(bytes, {0, bytes}).value();
      gpu->upload(total, a.data(), bytes);
      gpu->upload(next, b.data(), bytes);
      gpu->reduce_into({total, count, Element::F32}, next, how);
      std::vector<float> got(count), want = a;
      gpu->download(got.data(), total, bytes);
      reduce_into({want.data(), count, Element::F32}, b.data(), how);
      CHECK(got == want);
      gpu->release(total, bytes, {0, bytes});
      gpu->release(next, bytes, {0, bytes});
    }
  }
}
