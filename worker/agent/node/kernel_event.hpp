// One kernel-log text -> the event that reports it, if it means something for a training.
#pragma once

#include <optional>
#include <string_view>

#include "wire/agent_event.hpp"

namespace stoker::agent {

std::optional<wire::KernelLine> kernel_event(const NodeName& node, std::string_view text);
// An Xid that the driver's library reported, with its row of the catalogue.
wire::KernelLine xid_event(const NodeName& node, int xid, const std::string& text);

}  // namespace stoker::agent
