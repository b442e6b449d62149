#include "wire/run_directory.hpp"

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/own_files.hpp"
#include "common/os/permissions.hpp"
#include "common/os/way.hpp"
#include "common/os/writers.hpp"

namespace stoker::wire {
namespace {

struct Folder {
  const char* name;
  enum class Use { Read, Private, Switch, Store } use;
};
// The group reads the run directory and the store, writes switches, and has no business with the
// rest: orders hold train.environment.
constexpr Folder kFolders[] = {
    {"", Folder::Use::Read},           {"/orders", Folder::Use::Private},
    {"/claims", Folder::Use::Private}, {"/batch", Folder::Use::Private},
    {"/switch", Folder::Use::Switch},  {"/checkpoints", Folder::Use::Store}};

// What stoker enters or appends to at the top of a run directory. Other files are replaced whole,
// and count only if they are ours when they are read.
const std::vector<std::string> kOurs{"orders",      "claims", "batch",  "switch",
                                     "checkpoints", "after",  "stacks", "events.jsonl"};

}  // namespace

Status close_run_directory(const std::string& directory, std::vector<std::string>& closed) {
  STOKER_TRY_STATUS(os::check_way(directory));
  for (const Folder& folder : kFolders) {
    const std::string path = directory + folder.name;
    const bool below = *folder.name != '\0';
    struct stat info {};
    if (below && ::lstat(path.c_str(), &info) != 0) continue;
    if (below && S_ISLNK(info.st_mode)) {
      if (folder.use == Folder::Use::Store)
        continue;                  // its owner's; each manifest is judged by itself
      return os::check_own(path);  // it says what is wrong
    }
    const bool ours = below && info.st_uid == ::geteuid();
    if (folder.use == Folder::Use::Switch && ours) continue;
    STOKER_TRY(changed, os::close_to_others(path));
    if (changed) closed.push_back(path);
    if (folder.use == Folder::Use::Private && ours)
      STOKER_TRY_STATUS(os::set_mode(path, 0700, "cannot close it to others"));
  }
  return os::check_entries(directory, kOurs);
}

void keep_writers_out(const std::string& directory) {
  struct stat info {};
  const bool closed = ::stat(directory.c_str(), &info) == 0 && (info.st_mode & 0077) == 0;
  if (!closed) os::take_write_from_others();
}

}  // namespace stoker::wire
