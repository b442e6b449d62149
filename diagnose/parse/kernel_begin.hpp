// Whether words in a line of the kernel log are the kernel's own. The kernel prints names that any
// user chooses, so what stands further in proves nothing:
// * a process's name (15 bytes, any) begins a line and is followed by "[pid]:" or fixed words, with
//   a file's or cgroup's name of any length behind those (segfaults, failed page allocations);
// * file, cgroup, device and mount names stand behind fixed words everywhere else.
// So a message is evidence from its first byte on, or behind the name of a driver or device that no
// user's process can have, and never where a process's name may be what begins it. What another
// program or a torn record says (LineOrigin::other_program) is no message of the kernel's at all.
// Texts about a process itself (its crash, its kill) accuse no node; a hung or killed task counts
// against one only by its owner (worker/agent/node/kernel_event). Links of a bond accuse none: any
// user can make the kernel say that in full, in a network namespace.
#pragma once

#include <string_view>

namespace stoker::diagnose {

// True: `words`, a part of `message`, may be evidence.
bool begins_message(std::string_view message, std::string_view words);

// The same for words about a process, whose name may stand in front of them.
bool begins_behind_name(std::string_view message, std::string_view words);

// True: the name of a process may be what the message begins with ("x[77]: segfault at …").
bool led_by_process(std::string_view message);

}  // namespace stoker::diagnose
