// One kernel-log text -> the event that reports it, if it means something for a training.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "wire/agent_event.hpp"

namespace stoker::agent {

// Whose processes the kernel speaks of, in the kernel's own numbers.
struct Owners {
  std::uint32_t ours = 0;
  // Empty: it is gone, or cannot be looked up here (another namespace, /proc with hidepid).
  std::function<std::optional<std::uint32_t>(std::int64_t pid)> of;
};
Owners owners();

// Of one message of the kernel, without a header. A killed or hung task counts against the node
// only if it is ours (a hung one also if it is root's): other users' kills are passed over, for any
// user may run into a limit, and where it is not known whose it was it is reported without weight.
std::optional<wire::KernelLine> kernel_event(const NodeName& node, std::string_view text,
                                             const Owners& owners);
// An Xid that the driver's library reported, with its row of the catalogue.
wire::KernelLine xid_event(const NodeName& node, int xid, const std::string& text);

}  // namespace stoker::agent
