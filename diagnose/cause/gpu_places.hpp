// GpuPlaces: which rank computes on which GPU, as the logs tell it at a start: NCCL's communicators
// (NCCL_DEBUG=INFO), nvidia-smi's table with the GPU that a rank says it uses. The kernel names a
// GPU by its PCI id alone; with this its Xid names the rank.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::diagnose {

struct GpuPlace {
  std::string node;  // "" = unknown
  std::string pci;   // "0000:cb:00"; "" = only the index is known
  std::optional<std::uint32_t> index;
  std::optional<std::uint32_t> rank;
  // How far `rank` is to be believed: 0 = a label of the launcher, or the program's own word; else
  // the size of the communicator in which it is this rank.
  std::uint32_t communicator = 0;
  friend auto operator<=>(const GpuPlace&, const GpuPlace&) = default;
};

class GpuPlaces {
 public:
  // `node`, `rank`: of the log, as its path says.
  explicit GpuPlaces(std::string node = "", std::optional<std::uint32_t> rank = {})
      : node_(std::move(node)), rank_(rank) {}
  // What a line must have to be of use here.
  static constexpr const char* kWords = "(?: busId |using GPU |Bus-Id)";
  // Such a line, and the lines behind it (of a table some are read). 65,536 places are kept.
  void line(std::string_view text, std::string_view behind);
  [[nodiscard]] std::vector<GpuPlace> found() const { return {found_.begin(), found_.end()}; }

 private:
  void nccl_line(std::string_view line);
  void torch_line(std::string_view line, std::size_t at);
  void table(std::string_view rest);
  void keep(GpuPlace place);

  std::string node_;
  std::optional<std::uint32_t> rank_;
  std::size_t tables_ = 0;
  std::set<GpuPlace> found_;
};

// The rank on the GPU; empty: unknown, or contradictory. `node` may be "": then the id must be
// on one node only.
std::optional<std::uint32_t> rank_on_gpu(const std::vector<GpuPlace>& places, std::string_view node,
                                         std::string_view pci);

}  // namespace stoker::diagnose
