// The contract of every Comm over real connections: the ranks of a mesh are threads here, each with
// its own groups.
#include "worker/train/torch/gloo_comm.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <thread>

#include "common/os/fd.hpp"
#include "tests/train/comm_contract.hpp"

using namespace stoker;
using namespace stoker::train;
using namespace stoker::train::testing;

namespace {

std::uint16_t free_port() {
  const os::Fd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
  return ntohs(address.sin_port);
}

}  // namespace

TEST_CASE("Comm contract: GlooComm on TP2 x PP2") {
  const Mesh mesh{2, 2, 1};
  const std::uint16_t port = free_port();
  std::vector<std::unique_ptr<Comm>> comms(mesh.world());  // all live until the last has finished
  std::vector<std::thread> threads;
  for (std::uint32_t r = 0; r < mesh.world(); ++r)
    threads.emplace_back([&, r] {
      auto comm = connect_gloo({"127.0.0.1", port, "test", r, mesh, 60s});
      REQUIRE(comm);
      comms[r] = std::move(*comm);
      check_contract(*comms[r]);
    });
  for (auto& thread : threads) thread.join();
}
