// Where stoker's own programs are. In the relocatable bundle /proc/self/exe is the bundle's loader,
// so the launcher says in STOKER_BUNDLE where it lives.
#pragma once

#include <string>

namespace stoker::os {

// The path of `program` ("stokerd", "stoker-agent", …) beside the running one; it need not exist.
std::string own_program(const std::string& program);

}  // namespace stoker::os
