// What a GPU may answer instead: no memory, damaged memory, another process; and which node's facts
// CudaDevice reads.
#include <doctest/doctest.h>

#include "tests/cuda_on_cpu/emulator/runtime.hpp"
#include "tests/cuda_on_cpu/lazy.hpp"
#include "worker/train/device/cuda_device.hpp"

using namespace stoker;
using namespace stoker::train;

TEST_CASE("CudaDevice: more than is free -> an error that says how much, and goes on") {
  const Lazy lazy;
  cuda_on_cpu::card().memory = 1 << 20;
  const auto gpu = open_cuda(0).value();
  const auto none = gpu->allocate(2 << 20, {0, 2 << 20});
  REQUIRE(!none);
  CHECK(is_out_of_memory(none.error()));
  CHECK(none.error().message().find("out of device memory: 2097152 bytes asked, ") !=
        std::string::npos);
  CHECK(gpu->status());
  void* memory = gpu->allocate(1 << 18, {0, 1 << 18}).value();
  gpu->release(memory, 1 << 18, {0, 1 << 18});
}

TEST_CASE("CudaDevice: only the used part of an allocation exists") {
  const Lazy lazy;
  cuda_on_cpu::card().memory = 1 << 20;
  const auto gpu = open_cuda(0).value();
  const UsedBytes used{(8 << 20) + 64, (8 << 20) + 4096};
  void* memory = gpu->allocate(16 << 20, used).value();
  const std::vector<char> in(used.end - used.begin, 'x');
  std::vector<char> out(in.size());
  gpu->upload(static_cast<char*>(memory) + used.begin, in.data(), in.size());
  gpu->download(out.data(), static_cast<char*>(memory) + used.begin, out.size());
  CHECK(out == in);
  gpu->release(memory, 16 << 20, used);
}

TEST_CASE("CudaDevice: an ECC error -> readers get zeros, status() stays, nothing more is done") {
  const Lazy lazy;
  const auto gpu = open_cuda(0).value();
  void* memory = gpu->allocate(16, {0, 16}).value();
  const std::uint64_t in[2] = {1, 2};
  gpu->upload(memory, in, sizeof in);
  cuda_on_cpu::card().error = 214;
  std::uint64_t out[2] = {3, 4};
  gpu->download(out, memory, sizeof out);
  CHECK(out[0] == 0);
  cuda_on_cpu::card().error = 0;
  const Status status = gpu->status();
  REQUIRE(!status);
  CHECK(status.error().message() ==
        "GPU 0 (0000:1b:00.0): copy failed: CUDA error 214 (uncorrectable ECC error encountered); "
        "the GPU's memory is damaged: exclude the node");
  gpu->upload(memory, out, sizeof out);
  CHECK_FALSE(gpu->status());
  gpu->release(memory, 16, {0, 16});
}

TEST_CASE(
    "CudaDevice: a copy beside that is not done -> a write to it waits, one elsewhere does not") {
  const Lazy lazy;
  const auto gpu = open_cuda(0).value();
  constexpr std::size_t kBytes = 64;
  void* read = gpu->allocate(kBytes, {0, kBytes}).value();
  void* other = gpu->allocate(kBytes, {0, kBytes}).value();
  const std::vector<char> ones(kBytes, 1), twos(kBytes, 2);
  gpu->upload(read, ones.data(), kBytes);
  std::vector<char> out(kBytes, 9);
  cuda_on_cpu::hold_others(true);
  gpu->download_beside(out.data(), read, kBytes);
  gpu->upload(other, twos.data(), kBytes);  // returns, though the copy is held
  CHECK(out[0] == 9);
  cuda_on_cpu::hold_others(false);
  gpu->upload(read, twos.data(), kBytes);
  CHECK(gpu->finish_copies());
  CHECK(out == ones);
  gpu->release(read, kBytes, {0, kBytes});
  gpu->release(other, kBytes, {0, kBytes});
}

TEST_CASE("open_cuda: held by another process -> one line") {
  const Lazy lazy;
  cuda_on_cpu::card().device_error = 46;
  const auto gpu = open_cuda(0);
  REQUIRE(!gpu);
  CHECK(gpu.error().message() ==
        "GPU 0 (0000:1b:00.0): the GPU is busy or in exclusive mode: another process holds it; end "
        "that process (nvidia-smi shows it), or set the compute mode to default");
}

TEST_CASE("gpu_facts: a node with a card, one without, one without a driver") {
  const Lazy lazy;
  GpuFacts facts = gpu_facts();
  REQUIRE(facts.cards.size() == 1);
  CHECK(facts.cards[0].major == 9);
  CHECK(facts.driver == 13000);
  cuda_on_cpu::card().count = 0;
  cuda_on_cpu::card().driver = 0;
  facts = gpu_facts();
  CHECK(facts.cards.empty());
  CHECK(facts.why.empty());
  CHECK(facts.driver == 0);
}
