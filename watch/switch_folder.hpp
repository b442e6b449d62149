// The folder switch/ of a run, judged in one way by the daemon and, while that is silent, by the
// agents. It is open to others, so each file is hostile until proven otherwise: opened without
// following links and without blocking, a regular file with one name, at most 64 KiB, made in this
// folder by somebody who may give orders. What the body claims (`by`) is only a claim; where it is
// the file's owner, the owner has written it as a switch.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "wire/control.hpp"

namespace stoker::watch {

// save, stop, kill, pause, resume, restart, ack, in any case.
bool is_switch(const std::string& name);
std::string lower_case(std::string text);

// Names in the folder, sorted, without hidden ones; of very many only some, but "kill" and "KILL"
// (and the other verbs) are among them however much lies beside. Empty: it could not be read.
std::optional<std::vector<std::string>> switch_names(int folder);

struct SwitchRights {
  // "" = the orders of this user count; else why they do not. `name`: what the user is called.
  std::function<std::string(uid_t user, const std::string& name)> why_not;
  std::string
      group;  // whose members write here, for messages; "" = the folder is the owner's alone
};

struct SwitchFile {
  os::Fd fd;
  struct stat about {};
  std::string author;     // who owns it; "a member of …": another may have moved it here
  bool is_shown = false;  // its text may be repeated: the group may read it
};

// Empty: there is no such file. Error: it is no order, and why.
Result<std::optional<SwitchFile>> open_switch(int folder, const std::string& name,
                                              const SwitchRights& rights);

// Its text for people: JSON {by, reason, until}, or free text, which is the reason.
Result<wire::SwitchBody> read_switch_body(const SwitchFile& file, const std::string& name);

// Whether the user database has this user in the group.
bool is_member(uid_t user, gid_t group);

}  // namespace stoker::watch
