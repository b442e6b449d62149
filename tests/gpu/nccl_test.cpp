// The real NCCL on the real card, as far as one card goes: a group of one rank, whose sums are what
// was put in, and NcclComm on it.
#include <doctest/doctest.h>
#include <map>
#include <thread>

#include "worker/train/comm/nccl_comm.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

NcclPorts ports_of(CudaDevice& device) {
  auto nccl = open_nccl();
  REQUIRE_MESSAGE(nccl, (nccl ? "" : nccl.error().message()));
  return {*nccl, [&device](void* stream) { return device.query(stream); },
          [] { return monotonic_now(); }, [](Duration d) { std::this_thread::sleep_for(d); }};
}

std::vector<float> rising(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i) * 0.25f;
  return values;
}

}  // namespace

TEST_CASE("NCCL, one rank: starts without blocking, adds up, gathers, sends to itself, ends") {
  const auto device = open_cuda(0).value();
  const NcclPorts ports = ports_of(*device);
  MESSAGE("NCCL ", nccl_version_text(ports.nccl.code));
  NcclId id;
  REQUIRE(ports.nccl.unique_id(&id) == kNcclSuccess);
  auto group = NcclGroup::begin(ports, {"world", {0}, 0}, id, 60s);
  REQUIRE_MESSAGE(group, (group ? "" : group.error().message()));
  const std::size_t count = 100'003, bytes = count * sizeof(float);
  const auto in = rising(count);
  void* data = device->allocate(bytes, {0, bytes}).value();
  void* all = device->allocate(bytes, {0, bytes}).value();
  device->upload(data, in.data(), bytes);
  const NcclCall call{device->stream(), "gradients", 30s};
  CHECK(group->all_reduce(data, count, NcclType::F32, NcclSum::Sum, call));
  CHECK(group->wait(call));
  CHECK(group->all_gather(data, all, bytes, NcclType::U8, call));
  CHECK(group->wait(call));
  std::vector<float> out(count);
  device->download(out.data(), all, bytes);
  CHECK(out == in);
  device->clear(all, bytes);
  CHECK(group->exchange(
      {{data, bytes, NcclType::U8, 0, true}, {all, bytes, NcclType::U8, 0, false}}, call));
  CHECK(group->wait(call));
  device->download(out.data(), all, bytes);
  CHECK(out == in);
  CHECK(group->end(30s));
  CHECK(device->status());
  device->release(data, bytes, {0, bytes});
  device->release(all, bytes, {0, bytes});
}

TEST_CASE("NCCL, one rank of two: the other never comes -> an error within the deadline, no hang") {
  const auto device = open_cuda(0).value();
  const NcclPorts ports = ports_of(*device);
  NcclId id;
  REQUIRE(ports.nccl.unique_id(&id) == kNcclSuccess);
  const Instant began = monotonic_now();
  const auto group = NcclGroup::begin(ports, {"world", {0, 1}, 0}, id, 3s);
  REQUIRE(!group);
  MESSAGE(group.error().message());
  CHECK(monotonic_now() - began < 20s);
}

TEST_CASE("NcclComm, a world of one: every call returns what was put in") {
  const auto device = open_cuda(0).value();
  std::map<std::string, std::string> shelf;
  const Store store{[&](const std::string& key, const std::string& value) -> Status {
                      shelf[key] = value;
                      return ok();
                    },
                    [&](const std::string& key) -> Result<std::optional<std::string>> {
                      const auto found = shelf.find(key);
                      if (found == shelf.end()) return std::optional<std::string>();
                      return std::optional(found->second);
                    },
                    [] { return std::string(); }};
  auto comm = connect_nccl({Mesh{}, 0, 60s}, ports_of(*device), *device, store);
  REQUIRE_MESSAGE(comm, (comm ? "" : comm.error().message()));
  double x = 3;
  CHECK((*comm)->all_reduce(Axis::World, Reduce::Sum, {&x, 1, Element::F64}, {"step", 30s}));
  CHECK(x == 3);
  double y = 0;
  CHECK((*comm)->all_gather(Axis::World, &x, sizeof x, &y, {"step", 30s}));
  CHECK(y == 3);
}
