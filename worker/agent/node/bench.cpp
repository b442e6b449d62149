// The node's figures. Each measurement takes about a second and says what it did.
#include "worker/agent/node/bench.hpp"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "worker/agent/aside.hpp"
#include "worker/agent/link/star.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kEach = 700ms;

// Repeats `work` until the time is up; seconds of the fastest call.
double fastest(const std::function<void()>& work) {
  double best = 1e300;
  const Instant end = monotonic_now() + kEach;
  do {
    const Instant begin = monotonic_now();
    work();
    best = std::min(best, to_seconds(monotonic_now() - begin));
  } while (monotonic_now() < end);
  return best;
}

// C += A B for n x n, blocked by 64 so that three blocks stay in the first cache.
void gemm(std::size_t n, const float* a, const float* b, float* c) {
  constexpr std::size_t kBlock = 64;
  for (std::size_t i0 = 0; i0 < n; i0 += kBlock)
    for (std::size_t k0 = 0; k0 < n; k0 += kBlock)
      for (std::size_t j0 = 0; j0 < n; j0 += kBlock)
        for (std::size_t i = i0; i < i0 + kBlock; ++i)
          for (std::size_t k = k0; k < k0 + kBlock; ++k) {
            const float x = a[i * n + k];
            for (std::size_t j = j0; j < j0 + kBlock; ++j) c[i * n + j] += x * b[k * n + j];
          }
}

BenchFigure bench_gemm() {
  constexpr std::size_t kN = 512;
  const unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::vector<float>> c(threads, std::vector<float>(kN * kN, 0.0f));
  const std::vector<float> a(kN * kN, 1.5f), b(kN * kN, 0.5f);
  const double seconds = fastest([&] {
    std::vector<Thread> workers;
    for (unsigned t = 0; t < threads; ++t) {
      const auto work = [&, t] { gemm(kN, a.data(), b.data(), c[t].data()); };
      if (!workers.emplace_back(try_thread(work))) work();
    }
  });
  const double flops = 2.0 * kN * kN * kN * threads / seconds;
  return {"gemm_f32", flops / 1e9, "GFLOP/s",
          fmt::format("{0}x{0}, plain blocked loops, {1} threads", kN, threads)};
}

BenchFigure bench_memory(std::size_t bytes) {
  std::vector<char> from(bytes, 1), to(bytes, 0);
  const double seconds = fastest([&] { std::memcpy(to.data(), from.data(), bytes); });
  return {"memory_copy", 2.0 * static_cast<double>(bytes) / seconds / 1e9, "GB/s",
          fmt::format("memcpy of {} MiB, one thread, read + write", bytes >> 20)};
}

void bench_disk(const std::string& directory, std::size_t bytes,
                std::vector<BenchFigure>& figures) {
  const std::string path = fmt::format("{}/.stoker-bench.{}", directory, ::getpid());
  const std::size_t piece = 4u << 20, pieces = bytes / piece;
  const std::vector<char> data(piece, 'x');
  const os::Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ::unlink(path.c_str());
  Instant begin = monotonic_now();
  bool good = static_cast<bool>(fd);
  for (std::size_t i = 0; good && i < pieces; ++i)
    good = ::write(fd.get(), data.data(), piece) == static_cast<ssize_t>(piece);
  good = good && ::fsync(fd.get()) == 0;
  if (!good) {
    figures.push_back({"disk_write", 0, "MB/s", "cannot write to " + directory});
    return;
  }
  const double megabytes = static_cast<double>(piece * pieces) / 1e6;
  figures.push_back({"disk_write", megabytes / to_seconds(monotonic_now() - begin), "MB/s",
                     fmt::format("{} MiB and fsync in {}", bytes >> 20, directory)});
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  ::lseek(fd.get(), 0, SEEK_SET);
  std::vector<char> back(piece);
  begin = monotonic_now();
  while (::read(fd.get(), back.data(), piece) > 0) continue;
  figures.push_back({"disk_read", megabytes / to_seconds(monotonic_now() - begin), "MB/s",
                     "the same file after dropping its cache, where the kernel does"});
}

BenchFigure bench_loopback() {
  auto listener = listen_tcp("127.0.0.1");
  auto client =
      listener ? connect_tcp("127.0.0.1", listener->port, 2s) : Result<os::Fd>(fail("no listener"));
  auto server = client ? accept_link(listener->socket) : Result<os::Fd>(fail("no client"));
  if (!server) return {"loopback", 0, "GB/s", server.error().message()};
  ::fcntl(client->get(), F_SETFL, 0);
  ::fcntl(server->get(), F_SETFL, 0);
  const std::size_t total = 512u << 20;
  const Instant begin = monotonic_now();
  const Thread sender = try_thread([&] {
    const std::vector<char> data(1u << 20, 'x');
    for (std::size_t sent = 0; sent < total;) {
      const ssize_t n = ::send(client->get(), data.data(), data.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  });
  if (!sender) return {"loopback", 0, "GB/s", "no thread can be made"};
  std::vector<char> data(1u << 20);
  std::size_t got = 0;
  while (got < total) {
    const ssize_t n = ::recv(server->get(), data.data(), data.size(), 0);
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  return {"loopback", static_cast<double>(got) / to_seconds(monotonic_now() - begin) / 1e9, "GB/s",
          "one TCP stream over 127.0.0.1"};
}

}  // namespace

std::vector<BenchFigure> bench_node(const std::string& directory, std::size_t megabytes) {
  std::vector<BenchFigure> figures{bench_gemm(), bench_memory(megabytes << 20)};
  if (!directory.empty()) bench_disk(directory, megabytes << 20, figures);
  figures.push_back(bench_loopback());
  return figures;
}

}  // namespace stoker::agent
