// Meshes and the Comms that need no network: who meets whom, one contract, and what a dead or a
// late rank looks like.
#include <doctest/doctest.h>
#include <thread>

#include "tests/train/comm_contract.hpp"
#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/comm/self_comm.hpp"

using namespace stoker;
using namespace stoker::train;
using namespace stoker::train::testing;

using Ranks = std::vector<std::uint32_t>;

TEST_CASE("Mesh: groups of TP2 x PP3 x DP2 -> tensor fastest, then data, then pipeline") {
  const Mesh mesh{2, 3, 2};
  CHECK(mesh.group(Axis::Tensor, 5) == Ranks{4, 5});
  CHECK(mesh.group(Axis::Data, 5) == Ranks{5, 7});
  CHECK(mesh.group(Axis::Embedding, 1) == Ranks{1, 9});
  CHECK(mesh.group(Axis::Embedding, 5).empty());
  CHECK(mesh.group(Axis::World, 0).size() == 12);
  CHECK(mesh.pipe_rank(7) == 1);
  CHECK(mesh.on_pipe(7, 2) == 11);
}

TEST_CASE("Comm contract: SelfComm, and FakeComm on several meshes") {
  SelfComm alone;
  check_contract(alone);
  for (const Mesh mesh : {Mesh{1, 1, 2}, Mesh{2, 2, 2}, Mesh{1, 3, 1}}) {
    FakeHub hub(mesh);
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < mesh.world(); ++r)
      threads.emplace_back([&, r] {
        FakeComm comm(hub, r);
        check_contract(comm);
      });
    for (auto& thread : threads) thread.join();
  }
}

TEST_CASE("FakeComm: a dead or a late rank -> an Error that names it, in time") {
  FakeHub hub(Mesh{1, 1, 2});
  FakeComm comm(hub, 0);
  double x = 1;
  const Status late =
      comm.all_reduce(Axis::Data, Reduce::Sum, {&x, 1, Element::F64}, {"step", 50ms});
  REQUIRE_FALSE(late);
  CHECK(late.error().message().find("rank 1 did not come") != std::string::npos);
  CHECK_FALSE(comm.receive(1, &x, sizeof x, {"activations", 10ms}));
  hub.kill(1);
  const Status dead =
      comm.all_reduce(Axis::Data, Reduce::Sum, {&x, 1, Element::F64}, {"step", 10s});
  REQUIRE_FALSE(dead);
  CHECK(dead.error().message().find("rank 1 is gone") != std::string::npos);
  const Status gone = comm.receive(1, &x, sizeof x, {"activations", 10s});
  REQUIRE_FALSE(gone);
  CHECK(gone.error().message().find("rank 1 is gone") != std::string::npos);
}
