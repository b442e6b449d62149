// comm_speed RANKS: a sum of 64 MB over ranks that are processes, through our GlooComm and through
// c10d's ProcessGroupGloo by itself, in turn. Rank 0 prints one JSON object.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/os/fd.hpp"
#include "tests/bench/timing.hpp"
#include "worker/train/torch/gloo_comm.hpp"

using namespace stoker;
using namespace stoker::train;
using stoker::bench::median;
using stoker::bench::timed;

namespace {

constexpr int kTurns = 7;
constexpr std::size_t kCount = 16u << 20;  // f32

std::uint16_t free_port() {
  const os::Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    std::exit(1);
  return ntohs(address.sin_port);
}

int run_rank(std::uint32_t rank, std::uint32_t ranks, std::uint16_t ours, std::uint16_t theirs) {
  at::set_num_threads(1);
  auto comm = connect_gloo({"127.0.0.1", ours, "bench", rank, Mesh{1, 1, ranks}, 60s});
  if (!comm) return 1;
  c10d::TCPStoreOptions how;
  how.port = theirs;
  how.isServer = rank == 0;
  how.waitWorkers = false;
  auto store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", how);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->threads = 2;  // c10d's default
  auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(rank),
                                                           static_cast<int>(ranks), options);
  std::vector<float> mine(kCount, 1e-3F);
  std::vector<at::Tensor> tensor{at::full({static_cast<std::int64_t>(kCount)}, 1e-3F)};
  std::vector<double> a, b;
  for (int turn = 0; turn < kTurns; ++turn) {
    double first = 1, all = 0;
    if (!(*comm)->all_reduce(Axis::World, Reduce::Sum, {&first, 1, Element::F64}, {"turn", 60s}))
      return 1;
    a.push_back(timed([&] {
      if (!(*comm)->all_reduce(Axis::Data, Reduce::Sum, {mine.data(), kCount, Element::F32},
                               {"sum", 60s}))
        std::exit(1);
    }));
    all = 1;
    if (!(*comm)->all_reduce(Axis::World, Reduce::Sum, {&all, 1, Element::F64}, {"turn", 60s}))
      return 1;
    b.push_back(timed([&] { group->allreduce(tensor)->wait(); }));
  }
  if (rank == 0)
    std::printf("%s\n", fmt::format("{{\"ranks\":{},\"ours\":{:.4f},\"c10d\":{:.4f}}}", ranks,
                                    median(a), median(b))
                            .c_str());
  std::fflush(stdout);
  double last = 1;  // all are done before anybody's connections go
  (void)(*comm)->all_reduce(Axis::World, Reduce::Sum, {&last, 1, Element::F64}, {"end", 60s});
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  if (ranks < 2 || ranks > 16) return 2;
  const std::uint16_t ours = free_port(), theirs = free_port();
  std::vector<pid_t> children;
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = ::fork();
    if (child == 0)
      return run_rank(static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(ranks), ours,
                      theirs);
    children.push_back(child);
  }
  int worst = 0;
  for (const pid_t child : children) {
    int status = 0;
    if (::waitpid(child, &status, 0) < 0 || status != 0) worst = 1;
  }
  return worst;
}
