#include "tests/fake_nccl/moving_nccl.hpp"

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/emulator/runtime.hpp"

namespace stoker::train::testing {
namespace {

struct Transfer {
  void* data;
  std::size_t bytes;
  bool done = false;
};

struct Gathering {
  std::map<int, std::pair<const void*, void*>> buffers;  // of each rank: in, out
  bool done = false;
};

struct Hub {  // of one communicator
  int size = 0;
  std::map<int, int> keys;  // of a split: who asked, by key
  std::map<std::uint64_t, Gathering> gatherings;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Transfer>>> sends, receives;
  // Splits, by their number: color -> child; complete when all ranks have asked.
  struct Split {
    std::map<int, std::shared_ptr<Hub>> children;
    int asked = 0;
  };
  std::map<int, Split> splits;
  int joined = 0;
};

struct Comm {
  std::shared_ptr<Hub> hub;
  Hub::Split* part_of = nullptr;  // of a split: its size is known when all have asked
  int parent_size = 0, rank = 0, splits = 0;
  std::uint64_t gathers = 0;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
};

std::recursive_mutex mutex;
std::map<std::string, std::shared_ptr<Hub>> hubs;
std::vector<std::unique_ptr<Comm>> comms;  // also aborted ones: NCCL's tasks may look at them
std::atomic<int> failure{0}, aborts{0}, ids{0};

struct Group {
  bool open = false;
  std::vector<std::shared_ptr<Transfer>> transfers;
  Comm* comm = nullptr;
  void* stream = nullptr;
};
thread_local Group group;

// Both ends are there: the bytes move.
void match(Hub& hub, std::pair<int, int> ends) {
  auto& out = hub.sends[ends];
  auto& in = hub.receives[ends];
  while (!out.empty() && !in.empty()) {
    cuda_on_cpu::with_memory([&] {
      std::memcpy(in.front()->data, out.front()->data,
                  std::min(in.front()->bytes, out.front()->bytes));
    });
    in.front()->done = out.front()->done = true;
    in.pop_front(), out.pop_front();
  }
}

int version(int* code) {
  *code = 22809;
  return 0;
}
int unique_id(NcclId* id) {
  const std::string name = "id" + std::to_string(++ids);
  std::memcpy(id->bytes, name.data(), name.size());
  return 0;
}
int init(void** out, int ranks, NcclId id, int rank, NcclConfig* config) {
  if (config->blocking != 0) return 4;
  const std::lock_guard lock(mutex);
  auto& hub = hubs[std::string(id.bytes, sizeof id.bytes)];
  if (!hub) hub = std::make_shared<Hub>();
  hub->size = ranks;
  ++hub->joined;
  Comm* comm = comms.emplace_back(std::make_unique<Comm>()).get();
  comm->hub = hub, comm->rank = rank;
  *out = comm;
  return 7;
}
int split(void* parent, int color, int key, void** out, NcclConfig*) {
  const std::lock_guard lock(mutex);
  auto* from = static_cast<Comm*>(parent);
  Hub::Split& part = from->hub->splits[from->splits++];
  auto& child = part.children[color];
  if (!child) child = std::make_shared<Hub>();
  ++child->size, ++child->joined, ++part.asked;
  Comm* comm = comms.emplace_back(std::make_unique<Comm>()).get();
  comm->hub = child, comm->rank = key, comm->part_of = &part, comm->parent_size = from->hub->size;
  *out = comm;
  return 7;
}
int finalize(void*) {
  return 0;
}
int destroy(void*) {
  return 0;
}
int abort_comm(void* comm) {
  ++aborts;
  *static_cast<Comm*>(comm)->aborted = true;  // its tasks end; it stays for them
  return 0;
}
int async_error(void* of, int* state) {
  const std::lock_guard lock(mutex);
  const auto* comm = static_cast<Comm*>(of);
  const bool there = comm->part_of != nullptr ? comm->part_of->asked == comm->parent_size
                                              : comm->hub->joined >= comm->hub->size;
  *state = failure != 0 ? failure.load() : there ? 0 : 7;
  return 0;
}
const char* last_error(void*) {
  return "";
}

void queue_group() {
  auto transfers = std::move(group.transfers);
  group.transfers.clear();
  if (transfers.empty()) return;
  Comm* comm = group.comm;
  cuda_on_cpu::enqueue(static_cast<cuda_on_cpu::Stream*>(group.stream),
                       [transfers, dead = comm->aborted] {
                         for (const auto& t : transfers)
                           if (!t->done && !*dead) return false;
                         return true;
                       });
}
int group_start() {
  group = {};
  group.open = true;
  return 0;
}
int group_end() {
  group.open = false;
  queue_group();
  return 0;
}
// A transfer shows itself when its stream has come to it: before, its data is not there yet.
int transfer(void* data, std::size_t bytes, int peer, void* of, void* stream, bool sends) {
  auto* comm = static_cast<Comm*>(of);
  auto t = std::make_shared<Transfer>(Transfer{data, bytes});
  cuda_on_cpu::enqueue(static_cast<cuda_on_cpu::Stream*>(stream),
                       [t, peer, sends, hub = comm->hub, rank = comm->rank] {
                         const auto ends = sends ? std::pair(rank, peer) : std::pair(peer, rank);
                         (sends ? hub->sends : hub->receives)[ends].push_back(t);
                         match(*hub, ends);
                         return true;
                       });
  group.comm = comm, group.stream = stream;
  group.transfers.push_back(std::move(t));
  if (!group.open) queue_group();
  return 0;
}
int send(const void* data, std::size_t count, int, int peer, void* comm, void* stream) {
  return transfer(const_cast<void*>(data), count, peer, comm, stream, true);
}
int receive(void* data, std::size_t count, int, int peer, void* comm, void* stream) {
  return transfer(data, count, peer, comm, stream, false);
}
int all_gather(const void* in, void* out, std::size_t bytes, int, void* of, void* stream) {
  auto* comm = static_cast<Comm*>(of);
  const std::uint64_t number = comm->gathers++;
  cuda_on_cpu::enqueue(static_cast<cuda_on_cpu::Stream*>(stream),
                       [=, hub = comm->hub, rank = comm->rank, dead = comm->aborted] {
                         Gathering& g = hub->gatherings[number];
                         g.buffers[rank] = {in, out};
                         if (!g.done && static_cast<int>(g.buffers.size()) == hub->size) {
                           cuda_on_cpu::with_memory([&] {
                             for (const auto& [to, buffers] : g.buffers)
                               for (const auto& [from, theirs] : g.buffers)
                                 std::memmove(static_cast<char*>(buffers.second) +
                                                  static_cast<std::size_t>(from) * bytes,
                                              theirs.first, bytes);
                           });
                           g.done = true;
                         }
                         return g.done || *dead;
                       });
  return 0;
}
int no_reduce(const void*, void*, std::size_t, int, int, void*, void*) {
  return 4;  // its order of additions is not ours
}
int no_broadcast(const void*, void*, std::size_t, int, int, void*, void*) {
  return 4;
}
int register_buffer(void*, void*, std::size_t, void**) {
  return 0;
}

}  // namespace

NcclTable moving_nccl() {
  NcclTable t;
  t.version = version, t.unique_id = unique_id, t.init = init, t.split = split;
  t.finalize = finalize, t.destroy = destroy, t.abort = abort_comm, t.async_error = async_error;
  t.last_error = last_error, t.group_start = group_start, t.group_end = group_end;
  t.all_reduce = no_reduce, t.reduce_scatter = no_reduce, t.all_gather = all_gather;
  t.broadcast = no_broadcast, t.send = send, t.receive = receive;
  t.register_buffer = register_buffer, t.code = 22809;
  return t;
}
void moving_nccl_fails(int result) {
  failure = result;
}
int moving_nccl_aborts() {
  return aborts;
}

}  // namespace stoker::train::testing
