// Every reason not to start on a node's GPU, by nodes that are plain values.
#include "worker/train/device/gpu_check.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <thread>

#include "worker/train/comm/fake_comm.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

GpuFacts node(std::size_t cards) {
  GpuFacts facts;
  facts.driver = facts.runtime = 13000;
  for (std::size_t i = 0; i < cards; ++i)
    facts.cards.push_back({"0000:" + std::to_string(10 + i) + ":00.0", 9, 0, 0});
  return facts;
}

const GpuBuild kBuild{{90}, "2.11.0"};

// "line", or with " [node]" where the node is to blame.
std::string refusal(const GpuFacts& facts, NodePlace place = {},
                    const std::string& torch = "2.11.0") {
  bool nodes_fault = false;
  const auto chosen = choose_gpu(facts, kBuild, place, torch, nodes_fault);
  if (chosen) return "GPU " + std::to_string(*chosen);
  return chosen.error().message() + (nodes_fault ? " [node]" : "");
}

}  // namespace

TEST_CASE("choose_gpu: a rank takes the card of its place; one card that is shown is its own") {
  CHECK(refusal(node(1)) == "GPU 0");
  CHECK(refusal(node(8), {5, 8}) == "GPU 5");
  CHECK(refusal(node(8), {1, 2}) == "GPU 1");
  GpuFacts shown = node(1);
  shown.visible = "3";
  CHECK(refusal(shown, {3, 8}) == "GPU 0");
}

TEST_CASE("choose_gpu: a newer driver of the same or a later major version serves") {
  GpuFacts facts = node(1);
  for (const int driver : {13000, 13020, 14000}) {
    facts.driver = driver;
    CHECK(refusal(facts) == "GPU 0");
  }
}

TEST_CASE("choose_gpu: each thing that is wrong -> one line, and whether another node may do") {
  GpuFacts facts = node(1);
  facts.driver = 0;
  CHECK(refusal(facts) ==
        "train.device: cuda: this node has no NVIDIA driver; start on a node with a GPU, or take "
        "train.device: cpu [node]");
  facts = node(1);
  facts.driver = 12080;
  CHECK(refusal(facts) ==
        "train.device: cuda: the driver serves CUDA 12.8, this program was built with CUDA 13.0; "
        "install a newer NVIDIA driver, or exclude the node [node]");
  facts = node(0);
  facts.why = "CUDA error 802 (system not yet initialized)";
  CHECK(refusal(facts) ==
        "train.device: cuda: CUDA does not start: CUDA error 802 (system not yet initialized); "
        "nvidia-smi shows the node's state [node]");
  CHECK(refusal(node(0)) ==
        "train.device: cuda: this node has no GPU; start on a node with a GPU, or take "
        "train.device: cpu [node]");
  facts = node(1);
  facts.cards[0].major = 8;
  CHECK(refusal(facts) ==
        "GPU 0 (0000:10:00.0): the GPU is sm_80, this program has kernels for sm_90; build with "
        "-DCMAKE_CUDA_ARCHITECTURES=80");
  facts = node(1);
  facts.cards[0].compute_mode = 2;
  CHECK(
      refusal(facts) ==
      "GPU 0 (0000:10:00.0): the GPU's compute mode forbids every program; set it with nvidia-smi "
      "-c DEFAULT, or exclude the node [node]");
  CHECK(
      refusal(node(1), {}, "2.15.0") ==
      "train.device: cuda: LibTorch 2.15.0 was loaded, this program was built for 2.11.0; install "
      "the packages of deploy/libtorch.txt, or build again");
}

TEST_CASE("choose_gpu: fewer cards than ranks, with and without CUDA_VISIBLE_DEVICES") {
  GpuFacts facts = node(2);
  facts.visible = "0,1";
  CHECK(refusal(facts, {0, 4}) ==
        "train.device: cuda: CUDA_VISIBLE_DEVICES=0,1 shows 2 GPUs for 4 ranks of this node; start "
        "as many ranks a node as it has GPUs");
  CHECK(refusal(node(4), {7, 8}) ==
        "train.device: cuda: there are 4 GPUs for 8 ranks of this node; start as many ranks a node "
        "as it has GPUs");
  CHECK(refusal(node(1), {1, 2}) ==
        "train.device: cuda: there is 1 GPU for 2 ranks of this node; start one rank a node");
  facts = node(0);
  facts.visible = "";
  CHECK(refusal(facts) ==
        "train.device: cuda: CUDA_VISIBLE_DEVICES= shows no GPU; start on a node with a GPU, or "
        "take train.device: cpu");
}

TEST_CASE("read_node_place: of one rank nothing is needed, of several both variables") {
  ::unsetenv("LOCAL_RANK");
  ::unsetenv("LOCAL_WORLD_SIZE");
  CHECK(read_node_place(1)->ranks == 1);
  CHECK(
      read_node_place(2).error().message() ==
      "train.device: cuda: which GPU is this rank's: LOCAL_RANK and LOCAL_WORLD_SIZE are not set; "
      "let stoker or torchrun start the ranks");
  ::setenv("LOCAL_RANK", "3", 1);
  ::setenv("LOCAL_WORLD_SIZE", "8", 1);
  CHECK(read_node_place(16)->rank == 3);
  ::setenv("LOCAL_RANK", "8", 1);
  CHECK_FALSE(read_node_place(16));
  ::setenv("LOCAL_RANK", "-1", 1);
  CHECK_FALSE(read_node_place(16));
  ::unsetenv("LOCAL_RANK");
  ::unsetenv("LOCAL_WORLD_SIZE");
}

TEST_CASE("check_own_gpu: two ranks on one card of one host -> both are named, on all ranks") {
  const Mesh mesh{1, 1, 4};
  FakeHub hub(mesh);
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < mesh.world(); ++r)
    threads.emplace_back([&, r] {
      FakeComm comm(hub, r);
      const std::string host = r < 2 ? "n01" : "n02";
      CHECK(check_own_gpu(comm, host, r % 2 == 0 ? "1b" : "2b", 30s));
      const Status shared = check_own_gpu(comm, host, "1b", 30s);
      REQUIRE(!shared);
      CHECK(shared.error().message() ==
            "train.device: cuda: ranks 0 and 1 have the same GPU, 1b of host n01; give each rank "
            "its own: check CUDA_VISIBLE_DEVICES and LOCAL_RANK");
    });
  for (auto& thread : threads) thread.join();
}
