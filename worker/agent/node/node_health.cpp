// Memory figures and the kernel log.
#include "worker/agent/node/node_health.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "diagnose/parse/kernel_line.hpp"
#include "worker/agent/aside.hpp"
#include "worker/agent/node/kernel_event.hpp"
#include "worker/agent/node/nvml.hpp"
#include "worker/agent/rank/stacks.hpp"

namespace stoker::agent {

std::uint64_t free_memory_bytes() {
  const auto text = os::read_file("/proc/meminfo", 1u << 16);
  const auto at = text ? text->find("MemAvailable:") : std::string::npos;
  if (at == std::string::npos) return 0;
  return std::strtoull(text->c_str() + at + 13, nullptr, 10) * 1024;
}

std::uint64_t free_shm_bytes() {
  struct statvfs info {};
  if (::statvfs("/dev/shm", &info) != 0) return 0;
  return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
}

bool watch_kernel_log(const NodeName& node, const std::shared_ptr<std::atomic<bool>>& stop,
                      HealthSink sink, std::vector<wire::GpuName> gpus) {
  os::Fd fd(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd || ::lseek(fd.get(), 0, SEEK_END) < 0) return false;
  run_aside([fd = std::move(fd), node, stop, sink = std::move(sink), gpus = std::move(gpus),
             owners = owners()] {
    char record[8192];  // one read is one record: "6,339,5140900,-;text\n KEY=value…"
    while (!*stop) {
      pollfd p{fd.get(), POLLIN, 0};
      if (::poll(&p, 1, 500) <= 0) continue;
      const ssize_t n = ::read(fd.get(), record, sizeof record);
      if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == EPIPE)) continue;  // overrun
      if (n <= 0) return;
      const auto text = diagnose::kernel_record({record, static_cast<std::size_t>(n)});
      if (!text) continue;
      if (auto event = kernel_event(node, *text, owners)) {
        name_gpu(*event, gpus);
        sink(std::move(*event));
      }
    }
  });
  return true;
}

void name_gpu(wire::KernelLine& line, const std::vector<wire::GpuName>& gpus) {
  for (const wire::GpuName& gpu : gpus) {
    if (line.gpu_pci.empty() || gpu.pci != line.gpu_pci) continue;
    line.gpu_uuid = gpu.uuid;
    line.gpu_serial = gpu.serial;
  }
}

GpuWatch watch_gpus(const NodeName& node, const std::shared_ptr<std::atomic<bool>>& stop,
                    HealthSink sink) {
  const auto table = load_nvml();
  auto watcher = table ? GpuWatcher::make(*table) : std::nullopt;
  GpuWatch watch{{}, std::make_shared<std::atomic<double>>(0.0)};
  if (!watcher) return watch;
  for (GpuIdentity& gpu : watcher->gpus())
    watch.gpus.push_back({gpu.pci, std::move(gpu.uuid), std::move(gpu.serial)});
  run_aside([watcher = std::move(*watcher), node, stop, sink = std::move(sink), watts = watch.watts,
             gpus = watch.gpus]() mutable {
    while (!*stop) {
      *watts = watcher.watts();
      for (GpuNews& news : watcher.wait(1000)) {
        if (!news.xid) {
          sink(wire::Notice{node, news.text});
          continue;
        }
        wire::KernelLine line = xid_event(node, *news.xid, news.text);
        line.gpu_pci = news.gpu.pci;
        name_gpu(line, gpus);
        sink(std::move(line));
      }
    }
  });
  return watch;
}

wire::HealthSources health_sources(const NodeName& node, bool kernel_log,
                                   const std::vector<wire::GpuName>& gpus) {
  wire::HealthSources found{node, {}, gpus};
  const bool driver = load_nvml().has_value();
  found.sources.push_back({"NVML", !gpus.empty(),
                           !gpus.empty() ? fmt::format("{} GPUs", gpus.size())
                           : driver      ? std::string("no GPU answers")
                                         : std::string("libnvidia-ml.so.1 is not here")});
  found.sources.push_back(
      {"kernel log", kernel_log,
       kernel_log ? std::string("/dev/kmsg") : std::string("/dev/kmsg is not for this user")});
  const std::uint64_t shm = free_shm_bytes();
  found.sources.push_back(
      {"/dev/shm", shm > 0,
       shm > 0 ? fmt::format("{} MiB free", shm >> 20) : std::string("full, or not there")});
  const std::string tools = stack_tools();
  const bool python = tools.find("py-spy") != std::string::npos;
  found.sources.push_back(
      {"stacks", !tools.empty(),
       (tools.empty() ? std::string("no gdb, eu-stack or py-spy: kernel frames only") : tools) +
           (python ? "" : "; Python by faulthandler, with STOKER_FAULTHANDLER=USR1")});
  return found;
}

}  // namespace stoker::agent
