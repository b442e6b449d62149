// How a checkpoint's folder is deleted: its own files alone, in a folder of our own. What else is
// in there stays, with the folder, and is named in the error.
#pragma once

#include <string>

#include "common/result.hpp"

namespace stoker::watch {

// What the archive keeps beside an unfinished copy: which files are whole.
inline constexpr const char* kCopyRecord = "copied.json";

// <directory>/<name>: the manifest goes first; without it the rest counts as a checkpoint under no
// name. Gone already: success.
Status remove_checkpoint_files(const std::string& directory, const std::string& name);

// What a killed process left behind under a name of its own making. A folder whose manifest names
// another run than `run` stays: somebody has given it this name.
void remove_leftover(const std::string& directory, const std::string& name, const std::string& run);

}  // namespace stoker::watch
