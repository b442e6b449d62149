// Who listens on a port of this host: every user may take one that is free, as while its server is
// away, and gets what the next caller sends.
#pragma once

#include <istream>
#include <string>

namespace stoker::os {

// "": root, we ourselves or a user of the system (a uid below 1000) listens there, so that a secret
// may be sent in clear text. Else why not: another user does, it is no address of this host alone
// (127.0.0.0/8, ::1), or it cannot be seen.
std::string why_no_secret(const std::string& address, unsigned port);

// The same of what the kernel shows (/proc/net/tcp and tcp6).
std::string why_no_secret(const std::string& address, unsigned port, std::istream& tcp,
                          std::istream& tcp6);

}  // namespace stoker::os
