// LineOrigin: what stands in front of a line's message and shows where it comes from: labels of
// launchers (torchrun, srun -l, our own), time stamps, syslog and kernel-log headers. A kernel line
// is one whose header only the kernel log has; what a rank prints is never one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stoker::diagnose {

struct LineOrigin {
  std::string node;                         // "" = unknown
  std::optional<std::uint32_t> rank;        // global
  std::optional<std::uint32_t> local_rank;  // torchrun's [default3]
  std::optional<std::int64_t> time_ms;      // UTC where the zone is unknown; none without a year
  bool kernel_header = false;               // the header of a kernel log
  bool rank_label = false;                  // some launcher says that a rank printed it
  bool mild = false;                        // logged as information or as a warning
  // The header names another program than the kernel, or a fragment of a torn record.
  bool other_program = false;
  std::string_view message;         // the rest, a part of the line
  std::string_view kernel_message;  // the rest behind headers of a kernel log alone
};

LineOrigin read_origin(std::string_view line);

// How much a line may be taken for one of the kernel log. `at`: where the kernel's own words start.
//  Header: it has the header of one. Bare: it starts with the words. Quoted: a monitor that says so
// repeats it ("[gpu-health] XID: NVRM: Xid …"). No: a rank or another program printed it, or it
// stands in other text. Whether words behind a header are the kernel's own: kernel_begin.hpp.
enum class KernelWords { No, Quoted, Bare, Header };
KernelWords kernel_words(const LineOrigin& origin, std::string_view line, std::size_t at);

// The host of a kernel line that a monitor quotes ("… Error: May 19 07:08:57 n03 kernel: NVRM: …").
std::string quoted_node(std::string_view line, std::size_t at);

// True: the last level that a logger put in front of `at` is information or less. Such a line may
// quote an error ("handler for CUDA out of memory registered"); a program that dies says it louder.
bool told_as_information(std::string_view line, std::size_t at);

// Rank and node that a file's path names: ".../ranks/12.log", "rank-3.out",
// "attempt_0/3/stderr.log", "dmesg-n03.txt".
struct PathOrigin {
  std::string node;
  std::optional<std::uint32_t> rank;
};
PathOrigin read_path_origin(std::string_view path);

}  // namespace stoker::diagnose
