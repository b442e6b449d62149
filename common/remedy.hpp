// What a failure asks for: of its run, of its node, and whether it speaks against the node. The Xid
// catalogue and the signatures say it (diagnose/), agents report it (wire/), the ledger keeps it
// (core/). To add a repair of a node: its value and name here, the catalogue's word for it in
// diagnose/parse/xid_catalogue.cpp, its sentence in core/nodes/node_view.cpp.
#pragma once

#include "common/json.hpp"

namespace stoker {

enum class NodeSuspect { No, IfRepeated, Yes };
enum class RunAction { Restart, RestartExcluding, Rollback, Hold, None };
enum class NodeAction { None, ResetGpu, Reboot, Drain, Rma };

template <>
struct EnumNames<NodeSuspect> {
  static constexpr std::array names{"no", "if_repeated", "yes"};
};
template <>
struct EnumNames<RunAction> {
  static constexpr std::array names{"restart", "restart_excluding", "rollback", "hold", "none"};
};
template <>
struct EnumNames<NodeAction> {
  static constexpr std::array names{"none", "reset_gpu", "reboot", "drain", "rma"};
};

}  // namespace stoker
