// NcclComm on an emulated device whose streams run late, over an NCCL that moves bytes: the
// contract of every Comm, device memory, silent peers, errors of NCCL and of the device.
#include "worker/train/comm/nccl_comm.hpp"

#include <barrier>
#include <doctest/doctest.h>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/cuda_on_cpu/emulator/runtime.hpp"
#include "tests/cuda_on_cpu/lazy.hpp"
#include "tests/fake_nccl/moving_nccl.hpp"
#include "tests/train/comm_contract.hpp"

using namespace stoker;
using namespace stoker::train;
using namespace stoker::train::testing;

namespace {

struct Shelf {  // the store of the ranks, and who is gone
  std::mutex mutex;
  std::map<std::string, std::string> values;
  std::set<std::uint32_t> gone;
  Store store() {
    return {[this](const std::string& key, const std::string& value) -> Status {
              const std::lock_guard lock(mutex);
              values[key] = value;
              return ok();
            },
            [this](const std::string& key) -> Result<std::optional<std::string>> {
              const std::lock_guard lock(mutex);
              const auto found = values.find(key);
              if (found == values.end()) return std::optional<std::string>();
              return std::optional(found->second);
            },
            [this] {
              const std::lock_guard lock(mutex);
              std::string text;
              for (const std::uint32_t rank : gone)
                text += (text.empty() ? "" : ", ") + std::to_string(rank);
              return text;
            }};
  }
};

struct Rank {
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<Comm> comm;
};

Rank join(Shelf& shelf, const Mesh& mesh, std::uint32_t rank) {
  Rank r{open_cuda(0).value(), nullptr};
  CudaDevice* device = r.device.get();
  const NcclPorts ports{moving_nccl(), [device](void* stream) { return device->query(stream); },
                        [] { return monotonic_now(); },
                        [](Duration) { std::this_thread::yield(); }};
  auto comm = connect_nccl({mesh, rank, 60s}, ports, *device, shelf.store());
  if (!comm) FAIL(comm.error().message());
  r.comm = std::move(*comm);
  return r;
}

template <class F>
void play(const Mesh& mesh, F f) {
  Shelf shelf;
  std::vector<Rank> ranks(mesh.world());  // all live until the last has finished
  std::barrier all_joined(mesh.world());
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < mesh.world(); ++r)
    threads.emplace_back([&, r] {
      ranks[r] = join(shelf, mesh, r);
      all_joined.arrive_and_wait();
      f(shelf, ranks[r]);
    });
  for (auto& thread : threads) thread.join();
  for (Rank& rank : ranks) rank.comm.reset();
}

}  // namespace

TEST_CASE("Comm contract: NcclComm on TP2 x PP2, streams that run late") {
  const Lazy lazy;
  play({2, 2, 1}, [](Shelf&, Rank& r) { check_contract(*r.comm); });
}

TEST_CASE("Comm contract: NcclComm on DP3") {
  const Lazy lazy;
  play({1, 1, 3}, [](Shelf&, Rank& r) { check_contract(*r.comm); });
}

TEST_CASE("NcclComm: gradients in device memory -> added up there, in rank order") {
  const Lazy lazy;
  play({1, 1, 3}, [](Shelf&, Rank& r) {
    for (const std::size_t count : {3u, 50'001u}) {
      const std::size_t bytes = count * sizeof(float);
      void* memory = r.device->allocate(bytes, {0, bytes}).value();
      const auto mine = awkward<float>(r.comm->rank(), count);
      r.device->upload(memory, mine.data(), bytes);
      CHECK(r.comm->all_reduce(Axis::Data, Reduce::Sum, {memory, count, Element::F32},
                               {"gradients", 30s}));
      std::vector<float> got(count), want = awkward<float>(0, count);
      r.device->download(got.data(), memory, bytes);
      for (std::uint32_t other = 1; other < 3; ++other) {
        const auto next = awkward<float>(other, count);
        for (std::size_t i = 0; i < count; ++i) want[i] += next[i];
      }
      CHECK(got == want);
      r.device->release(memory, bytes, {0, bytes});
    }
  });
}

TEST_CASE("NcclComm: a silent peer -> within the deadline, named, everything aborted") {
  const Lazy lazy;
  const int before = moving_nccl_aborts();
  play({1, 1, 3}, [](Shelf& shelf, Rank& r) {
    if (r.comm->rank() == 1) {
      const std::lock_guard lock(shelf.mutex);
      shelf.gone.insert(1);
      return;
    }
    double x = 1;
    const Status done =
        r.comm->all_reduce(Axis::World, Reduce::Sum, {&x, 1, Element::F64}, {"step", 300ms});
    REQUIRE(!done);
    CHECK(done.error().message().find("peer lost: rank 1 does not answer any more (step with "
                                      "ranks") != std::string::npos);
    CHECK(done.error().object == "collective \"step\" on rank " + std::to_string(r.comm->rank()));
    const Status again = r.comm->send(0, &x, sizeof x, {"ring", 1s});
    REQUIRE(!again);
    CHECK(again.error().what == "the groups were given up after an earlier failure");
  });
  CHECK(moving_nccl_aborts() - before >= 3);
}

TEST_CASE("NcclComm: a peer that never receives -> the fifth send ends with the deadline") {
  const Lazy lazy;
  play({1, 2, 1}, [](Shelf&, Rank& r) {
    if (r.comm->rank() == 1) return;
    const std::vector<char> data(1000);
    for (int i = 0; i < 4; ++i) CHECK(r.comm->send(1, data.data(), data.size(), {"ring", 300ms}));
    const Status fifth = r.comm->send(1, data.data(), data.size(), {"ring", 300ms});
    REQUIRE(!fifth);
    CHECK(fifth.error().what.find("ring with rank 1 did not end within") != std::string::npos);
  });
}

TEST_CASE("NcclComm: NCCL reports an error -> peer lost; the GPU's own -> the GPU's words") {
  const Lazy lazy;
  play({1, 1, 2}, [](Shelf&, Rank& r) {
    double x = 1;
    CHECK(r.comm->all_reduce(Axis::World, Reduce::Sum, {&x, 1, Element::F64}, {"step", 30s}));
  });
  play({1, 1, 2}, [](Shelf& shelf, Rank& r) {
    if (r.comm->rank() == 1) return;
    {
      const std::lock_guard lock(shelf.mutex);
      shelf.gone.insert(1);
    }
    moving_nccl_fails(6);
    double x = 1;
    const Status done =
        r.comm->all_reduce(Axis::World, Reduce::Sum, {&x, 1, Element::F64}, {"step", 30s});
    moving_nccl_fails(0);
    REQUIRE(!done);
    CHECK(done.error().what.find("NCCL error 6") != std::string::npos);
  });
  play({1, 1, 2}, [](Shelf&, Rank& r) {
    if (r.comm->rank() == 1) return;
    cuda_on_cpu::card().error = 214;
    double x = 1;
    const Status done =
        r.comm->all_reduce(Axis::World, Reduce::Sum, {&x, 1, Element::F64}, {"step", 30s});
    cuda_on_cpu::card().error = 0;
    REQUIRE(!done);
    CHECK(done.error().what.find("uncorrectable ECC error") != std::string::npos);
    CHECK(done.error().hint == "the GPU's memory is damaged: exclude the node");
  });
}
