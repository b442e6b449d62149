#include "worker/train/device/gpu_check.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace stoker::train {
namespace {

constexpr int kProhibited = 2;
constexpr const char* kDevice = "train.device: cuda";

Result<std::optional<std::uint32_t>> number(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::optional<std::uint32_t>();
  std::uint32_t value = 0;
  const char* last = text + std::strlen(text);
  const auto [end, error] = std::from_chars(text, last, value);
  if (error != std::errc{} || end != last)
    return fail(fmt::format("\"{}\" is not a number of its range", text),
                std::string("environment variable ") + name);
  return std::optional(value);
}

Status check_driver(const GpuFacts& facts) {
  if (facts.driver == 0)
    return fail("this node has no NVIDIA driver", kDevice,
                "start on a node with a GPU, or take train.device: cpu");
  // Within a major version every driver serves every runtime.
  if (facts.driver / 1000 < facts.runtime / 1000)
    return fail(fmt::format("the driver serves CUDA {}, this program was built with CUDA {}",
                            cuda_version_text(facts.driver), cuda_version_text(facts.runtime)),
                kDevice, "install a newer NVIDIA driver, or exclude the node");
  if (!facts.why.empty())
    return fail("CUDA does not start: " + facts.why, kDevice, "nvidia-smi shows the node's state");
  return ok();
}

Status check_count(const GpuFacts& facts, const NodePlace& place) {
  const std::string seen =
      facts.visible ? fmt::format("CUDA_VISIBLE_DEVICES={} shows", *facts.visible) : "there are";
  if (facts.cards.empty())
    return fail(facts.visible ? fmt::format("{} no GPU", seen) : "this node has no GPU", kDevice,
                "start on a node with a GPU, or take train.device: cpu");
  if (facts.cards.size() < place.ranks && facts.cards.size() != 1)
    return fail(
        fmt::format("{} {} GPUs for {} ranks of this node", seen, facts.cards.size(), place.ranks),
        kDevice, "start as many ranks a node as it has GPUs");
  // Each rank was given one card, or all ranks would share it. Which one is known when they meet.
  if (facts.cards.size() < place.ranks && !facts.visible)
    return fail(fmt::format("there is 1 GPU for {} ranks of this node", place.ranks), kDevice,
                "start one rank a node");
  return ok();
}

Status check_card(const GpuFacts::Card& card, const GpuBuild& build, const std::string& object) {
  if (card.compute_mode == kProhibited)
    return fail("the GPU's compute mode forbids every program", object,
                "set it with nvidia-smi -c DEFAULT, or exclude the node");
  const int architecture = 10 * card.major + card.minor;
  const auto& known = build.architectures;
  if (std::find(known.begin(), known.end(), architecture) == known.end())
    return fail(fmt::format("the GPU is sm_{}, this program has kernels for sm_{}", architecture,
                            fmt::join(known, ", sm_")),
                object, fmt::format("build with -DCMAKE_CUDA_ARCHITECTURES={}", architecture));
  return ok();
}

struct Taken {  // travels between ranks
  char host[128] = {}, bus[64] = {};
};

}  // namespace

std::string cuda_version_text(int code) {
  return fmt::format("{}.{}", code / 1000, code % 1000 / 10);
}

Result<NodePlace> read_node_place(std::uint32_t world) {
  STOKER_TRY(rank, number("LOCAL_RANK"));
  STOKER_TRY(ranks, number("LOCAL_WORLD_SIZE"));
  if (world == 1) return NodePlace{};
  if (!rank || !ranks)
    return fail("which GPU is this rank's: LOCAL_RANK and LOCAL_WORLD_SIZE are not set", kDevice,
                "let stoker or torchrun start the ranks");
  if (*ranks == 0 || *rank >= *ranks)
    return fail(fmt::format("rank {} of {}", *rank, *ranks), "LOCAL_RANK and LOCAL_WORLD_SIZE");
  return NodePlace{*rank, *ranks};
}

Result<int> choose_gpu(const GpuFacts& facts, const GpuBuild& build, const NodePlace& place,
                       const std::string& libtorch, bool& nodes_fault) {
  nodes_fault = false;
  if (libtorch != build.libtorch)
    return fail(fmt::format("LibTorch {} was loaded, this program was built for {}", libtorch,
                            build.libtorch),
                kDevice, "install the packages of deploy/libtorch.txt, or build again");
  nodes_fault = true;
  STOKER_TRY_STATUS(check_driver(facts));
  nodes_fault = facts.cards.empty() && !facts.visible;
  STOKER_TRY_STATUS(check_count(facts, place));
  const std::size_t mine = facts.cards.size() == 1 ? 0 : place.rank;
  const auto& card = facts.cards[mine];
  nodes_fault = card.compute_mode == kProhibited;
  STOKER_TRY_STATUS(check_card(card, build, fmt::format("GPU {} ({})", mine, card.bus)));
  return static_cast<int>(mine);
}

Status check_own_gpu(Comm& comm, const std::string& host, const std::string& bus,
                     Duration deadline) {
  Taken mine;
  std::memcpy(mine.host, host.data(), std::min(host.size(), sizeof mine.host - 1));
  std::memcpy(mine.bus, bus.data(), std::min(bus.size(), sizeof mine.bus - 1));
  std::vector<Taken> all(comm.mesh().world());
  STOKER_TRY_STATUS(
      comm.all_gather(Axis::World, &mine, sizeof mine, all.data(), Call{"GPUs", deadline}));
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b)
      if (std::strcmp(all[a].host, all[b].host) == 0 && std::strcmp(all[a].bus, all[b].bus) == 0)
        return fail(fmt::format("ranks {} and {} have the same GPU, {} of host {}", a, b,
                                all[a].bus, all[a].host),
                    kDevice, "give each rank its own: check CUDA_VISIBLE_DEVICES and LOCAL_RANK");
  return ok();
}

}  // namespace stoker::train
