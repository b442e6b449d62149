// Names of nodes that a person gave: does anybody know them? Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/result.hpp"

namespace stoker::daemon {

struct NamesJudged {
  std::string refusal;  // one line that names what is near; "" = nothing speaks against them
  std::string note;     // why some could not be looked up
};

// answers: of every scheduler in use. A name is refused when all of them answered and none has it.
NamesJudged judge_names(const std::vector<NodeName>& asked,
                        const std::vector<Result<std::set<NodeName>>>& answers);

}  // namespace stoker::daemon
