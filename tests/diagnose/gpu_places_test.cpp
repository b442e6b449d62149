// Which rank computes on which GPU: line shapes of NCCL, PyTorch and nvidia-smi; an Xid then names
// the rank.
#include "diagnose/cause/gpu_places.hpp"

#include <doctest/doctest.h>

#include "detector.hpp"
#include "diagnose/cause/diagnosis.hpp"
#include "diagnose/input/log_file.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

GpuPlaces looked_at(std::string_view text) {
  GpuPlaces places;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    places.line(text.substr(0, end), text.substr(end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return places;
}

std::optional<std::uint32_t> rank_of(const std::string& text, std::string_view node,
                                     std::string_view pci) {
  return rank_on_gpu(looked_at(text).found(), node, pci);
}

const std::string kNccl =
    "n03:5776:5902 [1] NCCL INFO comm 0x55b0c1 rank 9 nranks 16 cudaDev 1 nvmlDev 1 busId cb000 "
    "commId 0x1f - Init COMPLETE\n"
    "n02:5776:5902 [1] NCCL INFO comm 0x55b0c2 rank 1 nranks 16 cudaDev 1 nvmlDev 1 busId cb000 "
    "commId 0x1f - Init COMPLETE\n"
    "n03:5776:5903 [1] NCCL INFO comm 0x55b0c3 rank 1 nranks 8 cudaDev 1 nvmlDev 1 busId cb000 "
    "commId 0x2f - Init COMPLETE\n";

}  // namespace

TEST_CASE("gpu_places: NCCL's world communicator -> the rank on a node's GPU") {
  CHECK(rank_of(kNccl, "n03", "0000:cb:00") == 9);
  CHECK(rank_of(kNccl, "n03.cluster", "0000:cb:00") == 9);
  CHECK(rank_of(kNccl, "n02", "0000:cb:00") == 1);
  CHECK_FALSE(rank_of(kNccl, "", "0000:cb:00"));  // two nodes have one
  CHECK_FALSE(rank_of(kNccl, "n03", "0000:ca:00"));
  CHECK(
      rank_of(
          "n1:7:9 [0] NCCL INFO comm 0x7f rank 5 nranks 8 cudaDev 0 busId 901d0 - Init COMPLETE\n",
          "n1", "0000:90:1d") == 5);
}

TEST_CASE("gpu_places: groups of the same size on every node -> no rank is made up") {
  const std::string groups =
      "n03:1:2 [1] NCCL INFO comm 0x1 rank 1 nranks 8 cudaDev 1 busId cb000 - Init COMPLETE\n"
      "n02:1:2 [1] NCCL INFO comm 0x2 rank 1 nranks 8 cudaDev 1 busId cb000 - Init COMPLETE\n";
  CHECK_FALSE(rank_of(groups, "n03", "0000:cb:00"));
}

TEST_CASE("gpu_places: a launcher's label is the rank, whatever the communicator says") {
  const std::string labelled =
      "[n03:12] n03:5776:5902 [4] NCCL INFO comm 0x5 rank 4 nranks 8 cudaDev 4 nvmlDev 4 busId "
      "9b000 commId 0x1 - Init START\n";
  CHECK(rank_of(labelled, "n03", "0000:9b:00") == 12);
}

TEST_CASE("gpu_places: nvidia-smi's table and the GPU that PyTorch says it uses") {
  const std::string smi =
      "| GPU  Name                 Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
      "|===============================+======================+======================|\n"
      "|   0  NVIDIA A100-SXM4-80GB          On  | 00000000:07:00.0 Off |                    0 |\n"
      "| N/A   32C    P0              62W / 400W |      2MiB / 81920MiB |      0%      Default |\n"
      "|   3  NVIDIA A100-SXM4-80GB          On  | 00000000:4E:00.0 Off |                    0 |\n"
      "| Processes:                                                                          |\n"
      "|    7   N/A  N/A      1 |  00000000:99:00.0 |\n";
  const std::string torch =
      "[rank3]:[W1122 10:00:00.123456789 ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank 3]  "
      "using GPU 3 to perform barrier as devices used by this process are currently unknown.\n";
  CHECK(rank_of(smi + torch, "", "0000:4e:00") == 3);
  CHECK_FALSE(rank_of(smi, "", "0000:4e:00"));
  CHECK_FALSE(rank_of(smi + torch, "", "0000:07:00"));
  CHECK_FALSE(rank_of(smi + torch, "", "0000:99:00"));
}

TEST_CASE("gpu_places: an Xid in a node's kernel log -> the diagnosis names the rank") {
  const auto main = scan_text(detector(), kNccl, "main.log", 0);
  const auto kernel = scan_text(detector(),
                                "Jun 10 03:09:55 n03 kernel: NVRM: Xid (PCI:0000:cb:00): 79, "
                                "pid=1, GPU has fallen off the bus.\n",
                                "dmesg-n03.txt", 1, true);
  const auto diagnosis = find_cause({main, kernel}, detector().knowledge().causes);
  CHECK(diagnosis.nodes == std::vector<std::string>{"n03"});
  CHECK(diagnosis.ranks == std::vector<std::uint32_t>{9});
  CHECK(diagnosis.summary.find("rank 9 on n03") != std::string::npos);
}

TEST_CASE("gpu_places: hostile lines -> nothing kept") {
  const GpuPlaces places = looked_at(
      " busId \n busId zz rank 1 nranks 2 NCCL INFO\nusing GPU \nRank using GPU 99999999999999\n"
      "Bus-Id\n|||\n|x|y|\n| 9999 | 00000000:99:00.0\nBus-Id");
  CHECK(places.found().empty());
}
