// What a bug report needs of a run: what stoker's own commands answer, what the daemon published,
// what the agents wrote, and the newest logs and stacks. The newest end of what is large; what
// could not be had is named in the manifest.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/support/archive.hpp"
#include "cli/support/redact.hpp"
#include "wire/site.hpp"

namespace stoker::cli::support {

struct Plan {
  wire::SiteRun run;
  std::string state;
  std::size_t most_bytes = 64u << 20;              // of the texts together
  std::map<std::string, std::string> environment;  // for the commands
};

struct Bundle {
  std::vector<Entry> entries;         // the manifest last
  std::vector<std::string> left_out;  // "name: why"
  std::size_t bytes = 0, hidden = 0;
};

Bundle collect(const Plan& plan, Redactor redactor, WallTime now);

}  // namespace stoker::cli::support
