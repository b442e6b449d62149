// NcclGroup: one NCCL communicator, used without ever blocking inside NCCL. Each call has a
// deadline; an Error names the call, the group, how long it waited and the peers. After an Error
// the communicator has been aborted, exactly once, and every later call fails with the same words:
// the process reports it and exits (20), so that all ranks restart together. One thread a group.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/time.hpp"
#include "worker/train/nccl/nccl_table.hpp"

namespace stoker::train {

// The world outside, so that tests play it.
struct NcclPorts {
  NcclTable nccl;
  std::function<int(void* stream)> stream_query;  // cudaStreamQuery: 0 done, 600 not ready
  std::function<Instant()> now;
  std::function<void(Duration)> pause;    // between two looks
  std::function<bool()> leave = nullptr;  // asked at each look: true ends the wait
};

struct NcclMembers {
  std::string name;                  // "data": in errors and in ncclras
  std::vector<std::uint32_t> ranks;  // of the world, in the group's order
  std::uint32_t me = 0;              // place in `ranks`
};

// A message to or from the group's member `peer`.
struct NcclTransfer {
  void* data = nullptr;
  std::size_t count = 0;
  NcclType type = NcclType::F32;
  std::uint32_t peer = 0;
  bool send = false;
};

struct NcclCall {
  void* stream = nullptr;  // cudaStream_t
  const char* name = "";   // "gradients": in errors
  Duration deadline{};
};

class NcclGroup {
 public:
  // Collective: all members call it with the id that one of them made.
  static Result<NcclGroup> begin(NcclPorts ports, NcclMembers members, const NcclId& id,
                                 Duration deadline);
  // The same without waiting: until ready() says true, no other call is made.
  static Result<NcclGroup> start(NcclPorts ports, NcclMembers members, const NcclId& id);
  Result<bool> ready();
  // Collective over this group: those with the same color form a group; `members` is the new one.
  Result<NcclGroup> split(int color, NcclMembers members, Duration deadline);

  NcclGroup(NcclGroup&& other) noexcept;
  NcclGroup& operator=(NcclGroup&&) = delete;
  ~NcclGroup();  // aborts what was not ended

  // Queues the operation on the stream; returns when NCCL has taken it.
  Status all_reduce(void* data, std::size_t count, NcclType type, NcclSum how,
                    const NcclCall& call);
  // `out` has count values a member: member i keeps the i-th part's sum.
  Status reduce_scatter(const void* in, void* out, std::size_t count, NcclType type,
                        const NcclCall& call);
  Status all_gather(const void* in, void* out, std::size_t count, NcclType type,
                    const NcclCall& call);
  Status broadcast(void* data, std::size_t count, NcclType type, std::uint32_t root,
                   const NcclCall& call);
  // All messages as one group, so that two ranks that send to each other do not wait for ever.
  Status exchange(const std::vector<NcclTransfer>& transfers, const NcclCall& call);
  Status register_buffer(void* data, std::size_t bytes);
  // Waits until all that was queued on the stream is done.
  Status wait(const NcclCall& call);
  // Leaves in good order; collective.
  Status end(Duration deadline);
  void abort(const std::string& why);

 private:
  NcclGroup(NcclPorts ports, NcclMembers members)
      : ports_(std::move(ports)),
        members_(std::move(members)),
        label_(std::make_shared<std::string>(members_.name)) {}
  Status taken(int result, const NcclCall& call);
  Status look(const NcclCall& call, Instant began, bool& in_progress);
  Status give_up(const std::string& what, const char* call, Instant began);
  [[nodiscard]] std::string peers() const;

  NcclPorts ports_;
  NcclMembers members_;
  std::shared_ptr<const std::string> label_;  // NCCL keeps the pointer
  void* comm_ = nullptr;
  std::optional<Error> broken_;
};

}  // namespace stoker::train
