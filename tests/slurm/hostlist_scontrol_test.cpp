// Hostlists against SLURM's own reader: what expand_hostlist() makes of a list is what
// `scontrol show hostnames` prints, and what compress_hostlist() writes reads back the same.
#include <cstdlib>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <random>

#include "common/hostlist.hpp"
#include "common/os/process.hpp"
#include "tests/folder.hpp"

using namespace stoker;

namespace {

std::optional<std::string> scontrol(const std::string& configuration, const std::string& list) {
  os::SpawnOptions call;
  call.argv = {"scontrol", "show", "hostnames", list};
  call.environment = {{"PATH", "/usr/bin:/bin:/usr/local/bin"}, {"SLURM_CONF", configuration}};
  const auto output = os::run_command(call, 30s);
  if (!output || !output->status.ok()) return std::nullopt;
  return output->out;
}

std::string lines(const std::vector<NodeName>& nodes) {
  std::string out;
  for (const NodeName& node : nodes) out += node.text + "\n";
  return out;
}

std::string random_list(std::mt19937& random) {
  const auto draw = [&random](unsigned n) { return static_cast<unsigned>(random() % n); };
  std::string out;
  for (unsigned part = 0, parts = 1 + draw(4); part < parts; ++part) {
    if (part > 0) out += ",";
    out += std::array{"n", "gpu-", "rack1-node", "jean.zay", "r2i"}[draw(5)];
    const unsigned brackets = draw(3);
    for (unsigned b = 0; b < brackets; ++b) {
      const unsigned width = 1 + draw(4);
      std::string inside;
      unsigned at = draw(5);
      for (unsigned range = 0, ranges = 1 + draw(3); range < ranges; ++range) {
        const unsigned last = at + draw(6);
        inside += fmt::format("{}{:0{}}", inside.empty() ? "" : ",", at, width);
        if (last > at) inside += fmt::format("-{:0{}}", last, width);
        at = last + 2 + draw(3);
      }
      out += "[" + inside + "]" + (b + 1 < brackets ? "n" : "");
    }
    if (brackets == 0) out += std::to_string(draw(1000));
  }
  return out;
}

}  // namespace

TEST_CASE("hostlists: lists drawn by chance -> the names that scontrol prints, there and back") {
  const stoker::testing::Folder folder;
  const std::string configuration = folder.write("slurm.conf",
                                                 "ClusterName=none\nSlurmctldHost=localhost\n"
                                                 "NodeName=n1\nPartitionName=p Nodes=n1\n");
  if (!scontrol(configuration, "n[1-2]")) {
    MESSAGE("SKIPPED: no scontrol here");
  } else {
    std::mt19937 random(20221122);
    for (int i = 0; i < 60; ++i) {
      const std::string list = random_list(random);
      const auto ours = expand_hostlist(list);
      REQUIRE_MESSAGE(ours, list);
      CHECK_MESSAGE(lines(*ours) == scontrol(configuration, list).value_or("refused"), list);
      auto sorted = *ours;
      std::sort(sorted.begin(), sorted.end());
      sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
      const std::string folded = compress_hostlist(*ours);
      auto back = expand_hostlist(folded);
      REQUIRE_MESSAGE(back, folded);
      std::sort(back->begin(), back->end());
      CHECK_MESSAGE(*back == sorted, folded);
      CHECK_MESSAGE(
          lines(*expand_hostlist(folded)) == scontrol(configuration, folded).value_or("refused"),
          folded);
    }
  }
}
