// NcclPairs: messages from one rank to another over NCCL. Each pair of ranks and direction has a
// communicator and a stream of its own, so that neither direction waits for the other. A pair comes
// together the first time something is sent; the receiving end joins in any of its calls.
#pragma once

#include <deque>
#include <map>
#include <memory>

#include "worker/train/comm/comm.hpp"
#include "worker/train/comm/store.hpp"
#include "worker/train/device/cuda_device.hpp"
#include "worker/train/device/device_room.hpp"
#include "worker/train/nccl/nccl_group.hpp"

namespace stoker::train {

struct NcclOptions {
  Mesh mesh;
  std::uint32_t rank = 0;
  Duration deadline{};  // for the groups to form
};

// One rank makes the id of a communicator, the others find it in the store under `key`.
Result<NcclId> agreed_nccl_id(const NcclPorts& ports, const Store& store, const std::string& key,
                              bool makes, Duration deadline);

class NcclPairs {
 public:
  // All of them outlive the pairs.
  NcclPairs(const NcclOptions& options, const NcclPorts& ports, CudaDevice& device,
            const Store& store)
      : options_(options), ports_(ports), device_(device), store_(store) {}

  // Returns when `data` may be written again; it may be the CPU's memory.
  Status send(std::uint32_t to, const void* data, std::size_t bytes, const Call& call);
  // Into the device's memory; returns when it is there.
  Status receive(std::uint32_t from, char* data, std::size_t bytes, const Call& call);
  // All that can move on moves on.
  Status poll();
  void abort(const std::string& why);

 private:
  struct Message {
    std::unique_ptr<DeviceRoom> room;
    char* data;
    std::size_t bytes;
    bool queued;
  };
  struct Channel {
    std::unique_ptr<NcclGroup> group;
    void* stream = nullptr;
    bool sends = false, ready = false;
    std::deque<Message> messages;  // kept until they are delivered
  };

  Result<Channel*> channel_of(std::uint32_t from, std::uint32_t to);
  Status join_incoming();
  Status push(Channel& channel);
  Status pause(Instant end, const Call& call, std::uint32_t peer);

  const NcclOptions& options_;
  const NcclPorts& ports_;
  CudaDevice& device_;
  const Store& store_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Channel> channels_;
  Instant next_look_{};
};

}  // namespace stoker::train
