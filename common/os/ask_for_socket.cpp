// One question to the kernel for one socket: no table is read, and every user may ask.
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/os/fd.hpp"
#include "common/os/socket_owners.hpp"

namespace stoker::os {
namespace {

constexpr std::uint32_t kSequence = 1;  // each question has a socket of its own
constexpr int kMostMessages = 8;
constexpr timeval kPatience{1, 0};

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 request{};
};

// An address as IPv6 has it, one of IPv4 as ::ffff:a.b.c.d.
using Address = std::array<std::uint32_t, 4>;

Address address_of(int family, const __be32* words) {
  if (family == AF_INET) return {0, 0, htonl(0xFFFF), words[0]};
  return {words[0], words[1], words[2], words[3]};
}

// Its family. 0: it is no address.
int parse(const std::string& address, __be32* words) {
  if (::inet_pton(AF_INET, address.c_str(), words) == 1) return AF_INET;
  return ::inet_pton(AF_INET6, address.c_str(), words) == 1 ? AF_INET6 : 0;
}

// With port 0 as the other end no connection is found, but who listens for one.
std::optional<Question> question_for(const Endpoint& server, const Endpoint& other) {
  Question question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.header.nlmsg_seq = kSequence;
  inet_diag_sockid& id = question.request.id;
  const int family = parse(server.address, id.idiag_src);
  if (family == 0 || parse(other.address, id.idiag_dst) != family) return std::nullopt;
  question.request.sdiag_family = static_cast<std::uint8_t>(family);
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0u;
  id.idiag_sport = htons(static_cast<std::uint16_t>(server.port));
  id.idiag_dport = htons(static_cast<std::uint16_t>(other.port));
  id.idiag_if = ::if_nametoindex("lo");
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

// Empty: it is no answer to the question, or says that there is no such socket.
std::optional<inet_diag_msg> answer_in(const char* bytes, std::size_t size) {
  nlmsghdr header{};
  inet_diag_msg found{};
  if (size < NLMSG_LENGTH(sizeof found)) return std::nullopt;
  std::memcpy(&header, bytes, sizeof header);
  if (header.nlmsg_len < NLMSG_LENGTH(sizeof found) || header.nlmsg_len > size ||
      header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return std::nullopt;
  std::memcpy(&found, bytes + NLMSG_HDRLEN, sizeof found);
  if (found.idiag_family != AF_INET && found.idiag_family != AF_INET6) return std::nullopt;
  return found;
}

std::optional<inet_diag_msg> ask(const Question& question) {
  const Fd socket(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (!socket ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience) != 0 ||
      ::sendto(socket.get(), &question, sizeof question, MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) != sizeof question)
    return std::nullopt;
  for (int messages = 0; messages < kMostMessages; ++messages) {
    std::array<char, 8192> bytes{};
    sockaddr_nl from{};
    socklen_t length = sizeof from;
    const ssize_t got = ::recvfrom(socket.get(), bytes.data(), bytes.size(), MSG_TRUNC,
                                   reinterpret_cast<sockaddr*>(&from), &length);
    if (got < static_cast<ssize_t>(sizeof(nlmsghdr))) return std::nullopt;
    nlmsghdr header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    if (length != sizeof from || from.nl_pid != 0 || header.nlmsg_seq != kSequence) continue;
    if (static_cast<std::size_t>(got) > bytes.size()) return std::nullopt;
    return answer_in(bytes.data(), static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

}  // namespace

std::optional<unsigned> ask_for_listener(const Endpoint& server) {
  const bool four = server.address.find(':') == std::string::npos;
  const auto question = question_for(server, {four ? "127.0.0.1" : "::1", 0});
  const auto found = question ? ask(*question) : std::nullopt;
  if (!found || found->idiag_state != TCP_LISTEN ||
      found->id.idiag_sport != question->request.id.idiag_sport)
    return std::nullopt;
  const Address at = address_of(found->idiag_family, found->id.idiag_src);
  const __be32 none[4] = {};
  if (at != address_of(question->request.sdiag_family, question->request.id.idiag_src) &&
      at != address_of(AF_INET, none) && at != address_of(AF_INET6, none))
    return std::nullopt;
  return found->idiag_uid;
}

std::optional<unsigned> ask_for_holder(const Endpoint& server, const Endpoint& ours) {
  const auto question = question_for(server, ours);
  const auto found = question ? ask(*question) : std::nullopt;
  if (!found || found->idiag_state == TCP_LISTEN) return std::nullopt;
  const inet_diag_sockid &asked = question->request.id, &id = found->id;
  const int family = question->request.sdiag_family;
  if (id.idiag_sport != asked.idiag_sport || id.idiag_dport != asked.idiag_dport ||
      address_of(found->idiag_family, id.idiag_src) != address_of(family, asked.idiag_src) ||
      address_of(found->idiag_family, id.idiag_dst) != address_of(family, asked.idiag_dst))
    return std::nullopt;
  return found->idiag_uid;
}

}  // namespace stoker::os
