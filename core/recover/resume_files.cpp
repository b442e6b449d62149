#include "core/recover/resume_files.hpp"

#include <fmt/format.h>

namespace stoker::core {

ResumeFiles resume_files(const std::string& format, const std::string& directory, Iteration to) {
  const std::string megatron = directory + "/latest_checkpointed_iteration.txt";
  const std::string number = std::to_string(to.value);
  if (format == "megatron")
    return {fmt::format("{}/iter_{:07}", directory, to.value), {{megatron, number, false}}};
  if (format == "deepspeed") {
    const std::string tag = "global_step" + number;
    return {directory + "/" + tag, {{directory + "/latest", tag, false}, {megatron, number, true}}};
  }
  return {};
}

}  // namespace stoker::core
