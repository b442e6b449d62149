// Who else decides what is in a file: who writes it, and who may put another one in its place. From
// what others write nothing is taken that says what is executed as us.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"

namespace stoker::os {

// Who besides us and root may write what is open, or what is at the path (which may be a link):
// "alice", "group team", "everybody"; "" = no other user. A group that has its owner's name and no
// other member is the owner's own. Of a sticky folder, where others replace no file of ours: its
// owner alone.
std::string other_writer(int fd);
std::string other_writer(const std::string& path);
// Who else may put a file of a new name into the folder, sticky or not.
std::string other_maker(const std::string& folder);

// read_file() of a file that is ours or root's and that no other user may write. The path may be
// a link, and its folder another's to write: what is judged is what is read. Error otherwise:
// is_refusal(), with who can write it.
Result<std::string> read_guarded_file(const std::string& path, std::size_t limit);

// Whether these names of a folder belong to us or to root, links as such: what another user has
// put there would be followed, appended to or read. A name that is not there is fine.
Status check_entries(const std::string& folder, const std::vector<std::string>& names);
// The same of all that is in it.
Status check_entries(const std::string& folder);

}  // namespace stoker::os
