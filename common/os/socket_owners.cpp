// The rows of the kernel's table: "0: 0100007F:1AA4 00000000:0000 0A 00000000:00000000 00:00000000
// 00000000 1000 …": the addresses and ports of both ends in hexadecimal, the state (0A = listens),
// then the uid.
#include "common/os/socket_owners.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <string_view>

#include "common/os/kernel_table.hpp"

namespace stoker::os {
namespace {

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

// As the table has it: the addresses that stand for this one, in tcp and in tcp6.
struct Written {
  std::vector<std::string> four, six;
};

Written written(const Endpoint& at, bool listening) {
  in_addr four{};
  in6_addr six{};
  Written all;
  if (::inet_pton(AF_INET, at.address.c_str(), &four) == 1) {
    six.s6_addr[10] = six.s6_addr[11] = 0xFF;  // as a server for both families sees it
    std::memcpy(&six.s6_addr[12], &four, sizeof four);
    all.four.push_back(hexadecimal(&four, 1));
  } else if (::inet_pton(AF_INET6, at.address.c_str(), &six) != 1) {
    return all;
  }
  all.six.push_back(hexadecimal(&six, 4));
  if (listening && !all.four.empty()) all.four.emplace_back(8, '0');
  if (listening) all.six.emplace_back(32, '0');
  for (auto* family : {&all.four, &all.six})
    for (std::string& one : *family) one += fmt::format(":{:04X}", at.port);
  return all;
}

std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

// The uids of the sockets with these ends, each once. No `remote`: of those that listen.
std::vector<unsigned> owners(const std::string& table, const std::vector<std::string>& local,
                             const std::vector<std::string>* remote) {
  const auto is_one = [](const auto& all, const auto& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  std::vector<unsigned> uids;
  const bool whole = read_table(table.c_str(), [&](std::string_view line) {
    next_word(line);  // the row's number
    if (!is_one(local, next_word(line))) return true;
    const std::string_view there = next_word(line), state = next_word(line);
    if (remote == nullptr ? state != kListens : !is_one(*remote, there)) return true;
    for (int skipped = 0; skipped < 3; ++skipped) next_word(line);
    const std::string_view word = next_word(line);
    unsigned uid = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), uid);
    const bool good = error == std::errc() && end == word.data() + word.size();
    if (good && !is_one(uids, uid)) uids.push_back(uid);
    return true;
  });
  return whole ? uids : std::vector<unsigned>{};
}

}  // namespace

std::vector<unsigned> listeners_in(const SocketTables& tables, const Endpoint& server) {
  const Written at = written(server, true);
  auto uids = owners(tables.tcp, at.four, nullptr);
  if (uids.empty()) uids = owners(tables.tcp6, at.six, nullptr);
  return uids;
}

std::vector<unsigned> holders_in(const SocketTables& tables, const Endpoint& server,
                                 const Endpoint& ours) {
  const Written end = written(server, false), from = written(ours, false);
  auto uids = owners(tables.tcp, end.four, &from.four);
  for (const unsigned uid : owners(tables.tcp6, end.six, &from.six)) uids.push_back(uid);
  return uids;
}

std::vector<unsigned> listeners_at(const Endpoint& server) {
  if (const auto uid = ask_for_listener(server)) return {*uid};
  return listeners_in({}, server);
}

std::vector<unsigned> holders_of(const Endpoint& server, const Endpoint& ours) {
  if (const auto uid = ask_for_holder(server, ours)) return {*uid};
  return holders_in({}, server, ours);
}

}  // namespace stoker::os
