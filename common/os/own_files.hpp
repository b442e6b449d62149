// Files that only our own user can have written. What a process executes or obeys (orders, control,
// starts, claims, manifests, end markers) lies in folders that a run's group can enter: there a
// file counts only if its owner is our user or root, no other user may write it, no symbolic link
// led to it, and no FUSE mount of another user shows it. Errors begin with "refused: " and name the
// owner.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/files.hpp"
#include "common/time.hpp"

namespace stoker::os {

// read_file() of <base>/<name>; `name` may have folders ("orders/000042.json"). `base` may be
// reached by links, nothing below it may; base, folders and file must be our own.
Result<std::string> read_own_file(const std::string& base, const std::string& name,
                                  std::size_t limit = 64u << 20);

// The same; empty when there is no such file.
Result<std::optional<std::string>> find_own_file(const std::string& base, const std::string& name,
                                                 std::size_t limit);

// Removes these files of <base>/<folder> in this order, then the folder itself; `folder` may be
// several below each other ("after/x"). What is gone already: success. Refused: a folder or file
// that is not our own, that a link leads to, or is neither; what else is in the folder stays, with
// the folder.
Status remove_own_folder(const std::string& base, const std::string& folder,
                         const std::vector<std::string>& files);

// Whether an open file or folder is our own. `path` is for the message.
Status check_own(int fd, const std::string& path);
// The same of a path. Error also: a symbolic link, or it does not exist.
Status check_own(const std::string& path);

// The same of a file that links may lead to, as certificates of a distribution are: who may write
// them chooses who is trusted.
Status check_own_target(const std::string& path);

// Whether no other user can rename, replace or remove what we make in this folder: it is our own or
// root's, and others may write there only if it is sticky. It may be reached by links.
Status check_keeps_ours(const std::string& folder);

// Takes write permission on a folder, and by its default ACL on what is made there, from group and
// others. True: they had it. False: they had not, or it is not there. Error: it is another user's.
Result<bool> close_to_others(const std::string& folder);

// read_file() of a file that is open; `path` is for the message.
Result<std::string> read_open_file(int fd, const std::string& path, std::size_t limit);

// replace_file() with exactly these permission bits: what is published by a process whose umask is
// private.
Status publish_file(const std::string& path, std::string_view content, Durability durability,
                    unsigned mode = 0644);

// Removes what a killed writer left in `folder`: files of our own user that replace_file() and
// claim_file() had put aside, older than `age` (a living writer needs milliseconds). How many.
std::size_t sweep_aside_files(const std::string& folder, Duration age = 1h);

// From now on what this process makes is for its own user alone (umask 077); the programs that it
// starts by spawn() have the umask that it had before. Call once, before there are threads.
void make_private();

// Whether an error of this file says that something was refused, not that it is missing.
bool is_refusal(const Error& error);

// "alice", or "uid 4711" when no user has it.
std::string user_name_of(unsigned uid);

}  // namespace stoker::os
