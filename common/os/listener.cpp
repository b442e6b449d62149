// The rows of the kernel's table: "0: 0100007F:1AA4 00000000:0000 0A 00000000:00000000 00:00000000
// 00000000 1000 …": address and port in hexadecimal, 0A = listens, then the uid. Those that listen
// come first.
#include "common/os/listener.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "common/os/own_files.hpp"

namespace stoker::os {
namespace {

constexpr unsigned kSystemUsers = 1000;  // below it: of the distribution, not of people
constexpr std::string_view kListens = "0A";

// As the kernel prints it: each word of four bytes as a number of this machine.
std::string hexadecimal(const void* bytes, std::size_t words) {
  std::string text;
  for (std::size_t i = 0; i < words; ++i) {
    std::uint32_t word = 0;
    std::memcpy(&word, static_cast<const char*>(bytes) + 4 * i, 4);
    text += fmt::format("{:08X}", word);
  }
  return text;
}

// The uids of all who listen at one of these addresses.
std::vector<unsigned> listeners(std::istream& table, const std::vector<std::string>& addresses,
                                unsigned port) {
  std::vector<std::string> wanted;
  for (const std::string& address : addresses)
    wanted.push_back(fmt::format("{}:{:04X}", address, port));
  std::vector<unsigned> uids;
  std::string line;
  std::getline(table, line);  // the names of the columns
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string number, local, remote, state, skipped;
    unsigned uid = 0;
    words >> number >> local >> remote >> state;
    if (state != kListens) break;
    words >> skipped >> skipped >> skipped >> uid;
    if (!words) continue;
    for (const std::string& one : wanted)
      if (local == one) uids.push_back(uid);
  }
  return uids;
}

}  // namespace

std::string why_no_secret(const std::string& address, unsigned port, std::istream& tcp,
                          std::istream& tcp6) {
  const std::string where = fmt::format("{} port {}", address, port);
  in_addr four{};
  in6_addr six{};
  const bool is_four = ::inet_pton(AF_INET, address.c_str(), &four) == 1;
  const bool here =
      is_four ? (ntohl(four.s_addr) >> 24) == 127
              : ::inet_pton(AF_INET6, address.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
  if (!here) return "refused: " + where + " is not this host alone; the secret was not sent";
  const std::string any(8, '0'), any_six(32, '0');
  std::vector<unsigned> uids;
  if (is_four) {
    const std::string own = hexadecimal(&four, 1);
    in6_addr mapped{};
    mapped.s6_addr[10] = mapped.s6_addr[11] = 0xFF;
    std::memcpy(&mapped.s6_addr[12], &four, sizeof four);
    uids = listeners(tcp, {own, any}, port);
    if (uids.empty()) uids = listeners(tcp6, {hexadecimal(&mapped, 4), any_six}, port);
  } else {
    uids = listeners(tcp6, {hexadecimal(&six, 4), any_six}, port);
  }
  if (uids.empty())
    return "refused: " + where +
           ": nothing listens there, or it cannot be seen who; the secret was not sent";
  for (const unsigned uid : uids)
    if (uid >= kSystemUsers && uid != ::geteuid())
      return fmt::format("refused: {} listens on {}; the secret was not sent", user_name_of(uid),
                         where);
  return "";
}

std::string why_no_secret(const std::string& address, unsigned port) {
  std::ifstream tcp("/proc/net/tcp"), tcp6("/proc/net/tcp6");
  return why_no_secret(address, port, tcp, tcp6);
}

}  // namespace stoker::os
