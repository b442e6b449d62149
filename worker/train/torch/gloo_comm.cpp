#include "worker/train/torch/gloo_comm.hpp"

#include <ATen/ATen.h>
#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <deque>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <future>
#include <map>
#include <netdb.h>
#include <sys/socket.h>
#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "common/os/fd.hpp"
#include "worker/train/torch/torch_store.hpp"

namespace stoker::train {
namespace {

constexpr int kTag = 0;  // of everything that is sent: in order between two ranks
constexpr auto kNever = std::chrono::hours(24 * 365);  // deadlines are ours, not the group's
constexpr std::size_t kSmall = 64u << 10;              // bytes: gathered by all ranks, then added
constexpr std::size_t kChunk = 8u << 20;               // bytes of a large sum that travel at a time
constexpr std::size_t kMostSends = 4;                  // to one rank that it has not asked for yet
const std::vector<std::uint8_t> kHere{1};              // in the store: this rank is there
constexpr Duration kConnectPause = 2ms;

std::chrono::milliseconds to_ms(Duration d) {
  return std::max(std::chrono::milliseconds(1),
                  std::chrono::duration_cast<std::chrono::milliseconds>(d));
}

// Our own address on the way to rank 0: where Gloo listens. Waits until rank 0's store accepts, in
// steps of 2 ms (TCPStore's own retry sleeps a second).
Result<std::string> local_address(const GlooOptions& o) {
  const std::string object = fmt::format("{}:{}", o.address, o.port);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error =
      ::getaddrinfo(o.address.c_str(), std::to_string(o.port).c_str(), &hints, &found);
  if (error != 0)
    return fail(fmt::format("cannot resolve rank 0's address: {}", ::gai_strerror(error)), object,
                "check MASTER_ADDR");
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  const Instant end = monotonic_now() + o.deadline;
  while (true) {
    const os::Fd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd && ::connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0) {
      sockaddr_storage mine{};
      socklen_t size = sizeof mine;
      char name[NI_MAXHOST] = "";
      if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&mine), &size) == 0 &&
          ::getnameinfo(reinterpret_cast<sockaddr*>(&mine), size, name, sizeof name, nullptr, 0,
                        NI_NUMERICHOST) == 0)
        return std::string(name);
    }
    if (monotonic_now() >= end) return fail("rank 0 does not answer", object, "restart the ranks");
    std::this_thread::sleep_for(kConnectPause);
  }
}

class GlooComm final : public Comm {
 public:
  GlooComm(GlooOptions options, c10::intrusive_ptr<c10d::Store> store)
      : options_(std::move(options)),
        store_(std::move(store), options_.rank, options_.mesh.world()) {}

  using Ranks = std::vector<std::uint32_t>;
  using Work = c10::intrusive_ptr<c10d::Work>;
  struct Send {
    std::vector<at::Tensor> data;  // kept until it is sent
    Work work;
  };

  // Waits for every rank to announce itself, then connects all with all; both within the deadline.
  Status meet(const std::string& address) {
    const Instant end = monotonic_now() + options_.deadline;
    const auto key = [](std::uint32_t r) { return fmt::format("here/{}", r); };
    store_.raw()->set(key(options_.rank), kHere);
    for (std::uint32_t r = 0; r < options_.mesh.world();) {
      if (store_.raw()->check({key(r)}))
        ++r;
      else if (monotonic_now() < end)
        std::this_thread::sleep_for(kConnectPause);
      else
        return fail(
            fmt::format("rank {} did not come within {}", r, format_duration(options_.deadline)),
            options_.prefix, "restart the ranks");
    }
    auto done = std::make_shared<std::promise<std::string>>();
    std::future<std::string> future = done->get_future();
    std::thread([this, done, address] {
      try {
        build(address);
        done->set_value("");
      } catch (const std::exception& e) {
        done->set_value(first_line(e));
      }
    }).detach();
    const bool finished = future.wait_for(options_.deadline) == std::future_status::ready;
    const std::string why = finished ? future.get() : "no connection in time";
    if (why.empty()) return ok();
    return fail(
        fmt::format("peer lost while connecting: rank {} ({})", store_.missing_ranks(), why),
        options_.prefix, "restart the ranks");
  }

  using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;

  // One group of connections for each set of ranks that this rank meets.
  void build(const std::string& address) {
    const auto device = c10d::ProcessGroupGloo::createDeviceForHostname(address);
    for (const Axis axis : {Axis::World, Axis::Tensor, Axis::Data, Axis::Embedding}) {
      const Ranks ranks = options_.mesh.group(axis, options_.rank);
      if (ranks.size() < 2 || groups_.contains(ranks)) continue;
      auto group = c10d::ProcessGroupGloo::Options::create(kNever);
      group->devices.push_back(device);
      group->threads = 1;
      const auto mine = std::find(ranks.begin(), ranks.end(), options_.rank);
      groups_[ranks] = c10::make_intrusive<c10d::ProcessGroupGloo>(
          c10::make_intrusive<c10d::PrefixStore>(fmt::format("gloo/{}", fmt::join(ranks, ".")),
                                                 store_.raw()),
          static_cast<int>(mine - ranks.begin()), static_cast<int>(ranks.size()), group);
    }
    connected_ = true;
  }

  [[nodiscard]] const Mesh& mesh() const override { return options_.mesh; }
  [[nodiscard]] std::uint32_t rank() const override { return options_.rank; }
  [[nodiscard]] const TorchStore& store() const { return store_; }

  // A call that missed its deadline goes on in Gloo's thread and may write later. So Gloo only ever
  // sees copies that the operation owns.
  Status all_reduce(Axis axis, Reduce how, Buffer buffer, const Call& call) override {
    const Ranks ranks = options_.mesh.group(axis, options_.rank);
    if (ranks.size() < 2) return ok();
    const Instant end = monotonic_now() + call.deadline;
    if (buffer.bytes() <= kSmall) return sum_small(ranks, how, buffer, call);
    const std::size_t each = kChunk / size_of(buffer.element);
    for (std::size_t at = 0; at < buffer.count; at += each)
      STOKER_TRY_STATUS(sum_chunk(ranks, how,
                                  {static_cast<char*>(buffer.data) + at * size_of(buffer.element),
                                   std::min(each, buffer.count - at), buffer.element},
                                  call.name, end));
    return ok();
  }

  Status all_gather(Axis axis, const void* mine, std::size_t bytes, void* all,
                    const Call& call) override {
    const Ranks ranks = options_.mesh.group(axis, options_.rank);
    const Instant end = monotonic_now() + call.deadline;
    if (ranks.size() < 2) std::memcpy(all, mine, bytes);
    const std::size_t each = std::max<std::size_t>(1, kChunk / ranks.size());
    for (std::size_t at = 0; at < bytes && ranks.size() > 1; at += each) {
      const std::size_t part = std::min(each, bytes - at);
      Exchange chunk = exchange(ranks, part);
      for (std::size_t r = 0; r < ranks.size(); ++r)
        std::memcpy(chunk.to(r), static_cast<const char*>(mine) + at, part);
      STOKER_TRY_STATUS(run(ranks, chunk, call.name, end));
      for (std::size_t r = 0; r < ranks.size(); ++r)
        std::memcpy(static_cast<char*>(all) + r * bytes + at, chunk.from(r), part);
    }
    return ok();
  }

  Status reduce_scatter(Axis axis, Buffer all, void* mine, const Call& call) override {
    const Ranks ranks = options_.mesh.group(axis, options_.rank);
    const Instant end = monotonic_now() + call.deadline;
    if (ranks.size() < 2) std::memcpy(mine, all.data, all.bytes());
    const std::size_t width = size_of(all.element), whole = all.count / ranks.size();
    const std::size_t each = std::max<std::size_t>(1, kChunk / width / ranks.size());
    for (std::size_t at = 0; at < whole && ranks.size() > 1; at += each) {
      const std::size_t part = std::min(each, whole - at);
      Exchange chunk = exchange(ranks, part * width);
      for (std::size_t r = 0; r < ranks.size(); ++r)
        std::memcpy(chunk.to(r), static_cast<const char*>(all.data) + (r * whole + at) * width,
                    part * width);
      STOKER_TRY_STATUS(run(ranks, chunk, call.name, end));
      chunk.add_up(Reduce::Sum, {static_cast<char*>(mine) + at * width, part, all.element});
    }
    return ok();
  }

  Status send(std::uint32_t to, const void* data, std::size_t bytes, const Call& call) override {
    auto& pending = sends_[to];
    while (pending.size() >= kMostSends) {
      STOKER_TRY_STATUS(guarded(call, [&] { return pending.front().work; }));
      pending.pop_front();
    }
    std::vector<at::Tensor> sent{copy_of(data, bytes)};
    return guarded(call, [&] {
      pending.push_back({sent, world().send(sent, static_cast<int>(to), kTag)});
      return Work();
    });
  }

  Status receive(std::uint32_t from, void* data, std::size_t bytes, const Call& call) override {
    std::vector<at::Tensor> received{empty_bytes(bytes)};
    STOKER_TRY_STATUS(
        guarded(call, [&] { return world().recv(received, static_cast<int>(from), kTag); }));
    std::memcpy(data, received[0].data_ptr(), bytes);
    return ok();
  }

 private:
  // Closes our connections, so that ranks that wait for us fail too, and answer the roll call. In a
  // thread of its own: an operation that never ends would hold us.
  void hang_up() {
    connected_ = false;
    std::thread([groups = std::move(groups_), sends = std::move(sends_)]() mutable {
      sends.clear();
      groups.clear();
    }).detach();
  }

  static at::Tensor empty_bytes(std::size_t bytes) {
    return at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  }
  static at::Tensor copy_of(const void* data, std::size_t bytes) {
    at::Tensor copy = empty_bytes(bytes);
    std::memcpy(copy.data_ptr(), data, bytes);
    return copy;
  }
  c10d::ProcessGroupGloo& world() {
    return *groups_.at(options_.mesh.group(Axis::World, options_.rank));
  }

  Status sum_small(const Ranks& ranks, Reduce how, Buffer buffer, const Call& call) {
    std::vector<std::vector<at::Tensor>> received(1);
    for (std::size_t r = 0; r < ranks.size(); ++r)
      received[0].push_back(empty_bytes(buffer.bytes()));
    std::vector<at::Tensor> sent{copy_of(buffer.data, buffer.bytes())};
    STOKER_TRY_STATUS(guarded(call, [&] { return groups_.at(ranks)->allgather(received, sent); }));
    add_up(received[0], how, buffer);
    return ok();
  }

  // An equal part to each rank of a group, and one from each.
  struct Exchange {
    at::Tensor sent, received;
    std::size_t part = 0;  // bytes
    std::size_t ranks = 0;

    [[nodiscard]] char* to(std::size_t r) const {
      return static_cast<char*>(sent.data_ptr()) + r * part;
    }
    [[nodiscard]] char* from(std::size_t r) const {
      return static_cast<char*>(received.data_ptr()) + r * part;
    }
    void add_up(Reduce how, Buffer total) const {
      std::memcpy(total.data, from(0), total.bytes());
      for (std::size_t r = 1; r < ranks; ++r) reduce_into(total, from(r), how);
    }
  };

  // In memory that is used again: fresh pages for each part cost more than its way. Only one
  // exchange is under way at a time, and after one that failed there is no other.
  Exchange exchange(const Ranks& ranks, std::size_t part) {
    const auto bytes = static_cast<std::int64_t>(part * ranks.size());
    for (at::Tensor* room : {&sent_, &received_})
      if (!room->defined() || room->numel() < bytes)
        *room = empty_bytes(static_cast<std::size_t>(bytes));
    return {sent_.narrow(0, 0, bytes), received_.narrow(0, 0, bytes), part, ranks.size()};
  }

  Status run(const Ranks& ranks, Exchange& chunk, const char* name, Instant end) {
    std::vector<std::int64_t> equal;
    const Call call{name, std::max(Duration(1ms), Duration(end - monotonic_now()))};
    return guarded(call, [&] {
      return groups_.at(ranks)->alltoall_base(chunk.received, chunk.sent, equal, equal);
    });
  }

  // Each rank adds up its part of the chunk over all ranks, then all parts go to all ranks.
  Status sum_chunk(const Ranks& ranks, Reduce how, Buffer chunk, const char* name, Instant end) {
    const std::size_t part = (chunk.count + ranks.size() - 1) / ranks.size();
    const std::size_t bytes = part * size_of(chunk.element);
    Exchange way = exchange(ranks, bytes);
    std::memcpy(way.to(0), chunk.data, chunk.bytes());
    std::memset(way.to(0) + chunk.bytes(), 0, bytes * ranks.size() - chunk.bytes());
    STOKER_TRY_STATUS(run(ranks, way, name, end));
    way.add_up(how, {way.to(0), part, chunk.element});
    for (std::size_t r = 1; r < ranks.size(); ++r) std::memcpy(way.to(r), way.to(0), bytes);
    STOKER_TRY_STATUS(run(ranks, way, name, end));
    std::memcpy(chunk.data, way.from(0), chunk.bytes());
    return ok();
  }

  static void add_up(const std::vector<at::Tensor>& parts, Reduce how, Buffer total) {
    std::memcpy(total.data, parts[0].data_ptr(), total.bytes());
    for (std::size_t r = 1; r < parts.size(); ++r) reduce_into(total, parts[r].data_ptr(), how);
  }

  template <class F>
  Status guarded(const Call& call, F start) {
    if (!connected_) return fail("the group was given up after an earlier failure", call.name);
    try {
      if (const Work work = start()) work->wait(to_ms(call.deadline));
      return ok();
    } catch (const std::exception& e) {
      const std::string why = first_line(e);
      hang_up();
      return fail(fmt::format("peer lost: rank {} does not answer any more ({})",
                              store_.missing_ranks(), why),
                  fmt::format("collective \"{}\" on rank {}", call.name, options_.rank),
                  "restart the ranks");
    }
  }

  GlooOptions options_;
  TorchStore store_;
  std::map<Ranks, Group> groups_;
  at::Tensor sent_, received_;                       // exchange()'s memory
  std::map<std::uint32_t, std::deque<Send>> sends_;  // to each rank, oldest first
  bool connected_ = false;
};

}  // namespace

Result<std::unique_ptr<Comm>> connect_gloo(const GlooOptions& options) {
  const std::string object = fmt::format("{}:{}", options.address, options.port);
  c10::intrusive_ptr<c10d::Store> store;
  try {
    c10d::TCPStoreOptions how;
    how.port = options.port;
    how.isServer = options.rank == 0 && options.store == GlooStore::Own;
    how.waitWorkers = false;
    how.timeout = std::chrono::duration_cast<std::chrono::milliseconds>(options.deadline);
    std::string address = options.address;
    if (!how.isServer) {
      auto mine = local_address(options);
      if (!mine) return fail(mine.error());
      address = *mine;
    }
    auto tcp = c10::make_intrusive<c10d::TCPStore>(options.address, how);
    if (how.isServer) {
      auto mine = local_address(options);
      if (!mine) return fail(mine.error());
      address = *mine;
    }
    store = c10::make_intrusive<c10d::PrefixStore>(options.prefix, tcp);
    auto comm = std::make_unique<GlooComm>(options, store);
    Status met = comm->meet(address);
    if (!met) {
      (void)comm.release();  // a thread may still be connecting in it; the process ends now
      return fail(met.error());
    }
    return std::unique_ptr<Comm>(std::move(comm));
  } catch (const std::exception& e) {
    const std::string why = first_line(e);
    if (why.find("EADDRINUSE") != std::string::npos ||
        why.find("ddress already in use") != std::string::npos)
      return fail("the port is in use", object, "choose another MASTER_PORT");
    return fail("the ranks did not meet: " + why, object, "restart the ranks");
  }
}

Store store_of(const std::shared_ptr<Comm>& comm) {
  const auto gloo = std::dynamic_pointer_cast<GlooComm>(comm);
  STOKER_CHECK(gloo != nullptr, "not of connect_gloo");
  return {[gloo](const std::string& key, const std::string& value) {
            return gloo->store().put(key, value);
          },
          [gloo](const std::string& key) { return gloo->store().get(key); },
          [gloo] { return gloo->store().missing_ranks(); }};
}

}  // namespace stoker::train
