// The files by which a checkpoint format of others says which checkpoint is resumed from.
#pragma once

#include <string>
#include <vector>

#include "common/ids.hpp"

namespace stoker::core {

struct ResumeFile {
  std::string path, text;
  bool optional = false;  // set only where it exists
};
struct ResumeFiles {
  std::string checkpoint;  // the folder that must be there; "" = a format without such a file
  std::vector<ResumeFile> names;
};

// Megatron-LM: latest_checkpointed_iteration.txt holds "1200", the checkpoint is iter_0001200.
// DeepSpeed: latest holds "global_step1200", the checkpoint's folder; Megatron-DeepSpeed keeps the
// first file beside it.
ResumeFiles resume_files(const std::string& format, const std::string& directory, Iteration to);

}  // namespace stoker::core
