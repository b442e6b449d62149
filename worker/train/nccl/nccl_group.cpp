#include "worker/train/nccl/nccl_group.hpp"

#include <fmt/format.h>
#include <utility>

namespace stoker::train {
namespace {

constexpr int kCudaNotReady = 600;  // cudaErrorNotReady
constexpr Duration kLook = 200us;
constexpr std::size_t kPeersNamed = 8;

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

Result<NcclGroup> NcclGroup::start(NcclPorts ports, NcclMembers members, const NcclId& id) {
  NcclGroup group(std::move(ports), std::move(members));
  NcclConfig config;
  config.comm_name = group.label_->c_str();
  const int result =
      group.ports_.nccl.init(&group.comm_, static_cast<int>(group.members_.ranks.size()), id,
                             static_cast<int>(group.members_.me), &config);
  if (result != kNcclSuccess && result != kNcclInProgress)
    return fail(group.give_up(fmt::format("NCCL error {}", result), "the start", group.ports_.now())
                    .error());
  return group;
}

Result<NcclGroup> NcclGroup::begin(NcclPorts ports, NcclMembers members, const NcclId& id,
                                   Duration deadline) {
  STOKER_TRY(group, start(std::move(ports), std::move(members), id));
  if (auto taken = group.taken(kNcclInProgress, {nullptr, "the start", deadline}); !taken)
    return fail(taken.error());
  return std::move(group);
}

Result<bool> NcclGroup::ready() {
  if (broken_) return fail(*broken_);
  bool in_progress = false;
  STOKER_TRY_STATUS(look({nullptr, "the start", Duration::max()}, ports_.now(), in_progress));
  return !in_progress;
}

Result<NcclGroup> NcclGroup::split(int color, NcclMembers members, Duration deadline) {
  if (broken_) return fail(*broken_);
  NcclGroup group(ports_, std::move(members));
  NcclConfig config;
  config.comm_name = group.label_->c_str();
  const int result =
      ports_.nccl.split(comm_, color, static_cast<int>(group.members_.me), &group.comm_, &config);
  // The parent takes the call, then the child becomes ready.
  if (auto parent = taken(result, {nullptr, "the split", deadline}); !parent)
    return fail(parent.error());
  if (auto child = group.taken(result, {nullptr, "the split", deadline}); !child)
    return fail(child.error());
  return group;
}

NcclGroup::NcclGroup(NcclGroup&& other) noexcept
    : ports_(std::move(other.ports_)),
      members_(std::move(other.members_)),
      label_(std::move(other.label_)),
      comm_(std::exchange(other.comm_, nullptr)),
      broken_(std::move(other.broken_)) {}

NcclGroup::~NcclGroup() {
  abort("the group was not ended");
}

void NcclGroup::abort(const std::string& why) {
  if (comm_ == nullptr) return;
  if (!broken_) broken_ = Error{why, fmt::format("NCCL group \"{}\"", members_.name), ""};
  ports_.nccl.abort(std::exchange(comm_, nullptr));
}

std::string NcclGroup::peers() const {
  std::string text;
  std::size_t others = 0;
  for (std::size_t i = 0; i < members_.ranks.size(); ++i) {
    if (i == members_.me) continue;
    if (++others <= kPeersNamed)
      text += fmt::format("{}{}", text.empty() ? "" : ", ", members_.ranks[i]);
  }
  if (others == 0) return "without peers";
  if (others > kPeersNamed) text += fmt::format(" and {} more", others - kPeersNamed);
  return fmt::format("with rank{} {}", others == 1 ? "" : "s", text);
}

Status NcclGroup::give_up(const std::string& what, const char* call, Instant began) {
  const char* last = comm_ == nullptr ? nullptr : ports_.nccl.last_error(comm_);
  std::string text = fmt::format("{} {} failed after {:.1f} s: {}", call, peers(),
                                 seconds(ports_.now() - began), what);
  if (last != nullptr && *last != '\0') text += fmt::format(" ({})", last);
  broken_ = Error{std::move(text), fmt::format("NCCL group \"{}\"", members_.name), ""};
  if (comm_ != nullptr) ports_.nccl.abort(std::exchange(comm_, nullptr));
  return fail(*broken_);
}

// One look at the communicator.
Status NcclGroup::look(const NcclCall& call, Instant began, bool& in_progress) {
  int state = kNcclSuccess;
  const int asked = ports_.nccl.async_error(comm_, &state);
  if (asked != kNcclSuccess) return give_up(fmt::format("NCCL error {}", asked), call.name, began);
  in_progress = state == kNcclInProgress;
  if (!in_progress && state != kNcclSuccess)
    return give_up(fmt::format("NCCL error {}", state), call.name, began);
  if (ports_.leave && ports_.leave()) return give_up("asked to leave", call.name, began);
  if (ports_.now() - began >= call.deadline)
    return give_up(fmt::format("no end within {:.1f} s", seconds(call.deadline)), call.name, began);
  return ok();
}

// After a call of NCCL that may still be in progress.
Status NcclGroup::taken(int result, const NcclCall& call) {
  const Instant began = ports_.now();
  if (result != kNcclSuccess && result != kNcclInProgress)
    return give_up(fmt::format("NCCL error {}", result), call.name, began);
  if (comm_ == nullptr) return give_up("NCCL made no communicator", call.name, began);
  for (;;) {
    bool in_progress = false;
    if (auto looked = look(call, began, in_progress); !looked) return looked;
    if (!in_progress) return ok();
    ports_.pause(kLook);
  }
}

Status NcclGroup::wait(const NcclCall& call) {
  if (broken_) return fail(*broken_);
  const Instant began = ports_.now();
  for (;;) {
    const int state = ports_.stream_query(call.stream);
    if (state == 0) return ok();
    if (state != kCudaNotReady)
      return give_up(fmt::format("CUDA error {}", state), call.name, began);
    bool in_progress = false;
    if (auto looked = look(call, began, in_progress); !looked) return looked;
    ports_.pause(kLook);
  }
}

Status NcclGroup::all_reduce(void* data, std::size_t count, NcclType type, NcclSum how,
                             const NcclCall& call) {
  if (broken_) return fail(*broken_);
  return taken(ports_.nccl.all_reduce(data, data, count, static_cast<int>(type),
                                      static_cast<int>(how), comm_, call.stream),
               call);
}

Status NcclGroup::reduce_scatter(const void* in, void* out, std::size_t count, NcclType type,
                                 const NcclCall& call) {
  if (broken_) return fail(*broken_);
  return taken(ports_.nccl.reduce_scatter(in, out, count, static_cast<int>(type),
                                          static_cast<int>(NcclSum::Sum), comm_, call.stream),
               call);
}

Status NcclGroup::all_gather(const void* in, void* out, std::size_t count, NcclType type,
                             const NcclCall& call) {
  if (broken_) return fail(*broken_);
  return taken(ports_.nccl.all_gather(in, out, count, static_cast<int>(type), comm_, call.stream),
               call);
}

Status NcclGroup::broadcast(void* data, std::size_t count, NcclType type, std::uint32_t root,
                            const NcclCall& call) {
  if (broken_) return fail(*broken_);
  return taken(ports_.nccl.broadcast(data, data, count, static_cast<int>(type),
                                     static_cast<int>(root), comm_, call.stream),
               call);
}

Status NcclGroup::exchange(const std::vector<NcclTransfer>& transfers, const NcclCall& call) {
  if (broken_) return fail(*broken_);
  const NcclTable& nccl = ports_.nccl;
  int worst = nccl.group_start();
  for (const NcclTransfer& t : transfers) {
    if (worst != kNcclSuccess && worst != kNcclInProgress) break;
    const auto type = static_cast<int>(t.type), peer = static_cast<int>(t.peer);
    const int result = t.send ? nccl.send(t.data, t.count, type, peer, comm_, call.stream)
                              : nccl.receive(t.data, t.count, type, peer, comm_, call.stream);
    if (result != kNcclSuccess) worst = result;
  }
  const int ended = nccl.group_end();  // also after an error: the group is this thread's
  if (worst == kNcclSuccess || worst == kNcclInProgress) worst = ended;
  return taken(worst, call);
}

Status NcclGroup::register_buffer(void* data, std::size_t bytes) {
  if (broken_) return fail(*broken_);
  void* handle = nullptr;  // belongs to the communicator, which lives as long as the buffer
  const int result = ports_.nccl.register_buffer(comm_, data, bytes, &handle);
  if (result != kNcclSuccess)
    return give_up(fmt::format("NCCL error {}", result), "registering a buffer", ports_.now());
  return ok();
}

Status NcclGroup::end(Duration deadline) {
  if (broken_) return fail(*broken_);
  if (auto done = taken(ports_.nccl.finalize(comm_), {nullptr, "the end", deadline}); !done)
    return done;
  const int result = ports_.nccl.destroy(std::exchange(comm_, nullptr));
  broken_ = Error{"the group has ended", fmt::format("NCCL group \"{}\"", members_.name), ""};
  if (result != kNcclSuccess)
    return fail(fmt::format("NCCL error {} at the end", result), broken_->object);
  return ok();
}

}  // namespace stoker::train
