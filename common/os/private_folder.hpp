// A folder that only its owner may enter, also below one that strangers write (/tmp).
#pragma once

#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace stoker::os {

struct PrivateFolder {
  std::string path;  // for people
  Fd fd;             // to open files in: another folder may have the path one day
};

// A new one of mode 0700; its name is `prefix` and six characters that cannot be foreseen.
Result<PrivateFolder> make_private_folder(const std::string& prefix);
// The same for files that are used by their path, as what is executed is: refused where another
// user could put something in the place of this folder, or of one that it lies in.
Result<PrivateFolder> make_lasting_folder(const std::string& prefix);

}  // namespace stoker::os
