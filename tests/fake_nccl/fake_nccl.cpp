// A library with NCCL's functions that plays what NCCL does on a bad day. `fake_nccl_play` chooses
// the scenario; a look at the communicator (ncclCommGetAsyncError) is its clock.
#include <cstddef>
#include <cstring>
#include <string>

#ifndef FAKE_NCCL_VERSION
#define FAKE_NCCL_VERSION 22809
#endif

namespace {

constexpr int kSuccess = 0, kInvalidArgument = 4, kRemoteError = 6, kInProgress = 7;

struct Play {
  std::string scenario;
  int looks = 0, aborts = 0, used_after_abort = 0, operations = 0;
  bool dead = false, hanging = false;
  char name[64] = {};
};
Play play;
int communicators[4];
int made = 0;

struct Config {  // the beginning of ncclConfig_t
  std::size_t size;
  unsigned magic, version;
  int blocking, cga, min_ctas, max_ctas;
  const char* net;
  int split_share, traffic_class;
  const char* name;
};

int begin(void** comm, const void* config) {
  Config c;
  std::memcpy(&c, config, sizeof c);
  if (c.magic != 0xcafebeefu || c.blocking != 0 || c.size < sizeof c) return kInvalidArgument;
  std::strncpy(play.name, c.name, sizeof play.name - 1);
  *comm = &communicators[made++ % 4];
  return kInProgress;
}

int operation() {
  if (play.dead) ++play.used_after_abort;
  ++play.operations;
  return kSuccess;
}

}  // namespace

extern "C" {

struct FakeId {
  char bytes[128];
};

void fake_nccl_play(const char* scenario) {
  play = Play{};
  play.scenario = scenario;
}
int fake_nccl_count(const char* what) {
  const std::string name = what;
  if (name == "aborts") return play.aborts;
  if (name == "operations") return play.operations;
  if (name == "used_after_abort") return play.used_after_abort;
  return play.looks;
}
const char* fake_nccl_name() {
  return play.name;
}

int ncclGetVersion(int* version) {
  *version = FAKE_NCCL_VERSION;
  return kSuccess;
}
int ncclGetUniqueId(FakeId* id) {
  std::memset(id->bytes, 7, sizeof id->bytes);
  return kSuccess;
}
int ncclCommInitRankConfig(void** comm, int, FakeId id, int, void* config) {
  if (id.bytes[127] != 7) return kInvalidArgument;
  return begin(comm, config);
}
#ifndef FAKE_NCCL_WITHOUT_SPLIT
int ncclCommSplit(void*, int, int, void** comm, void* config) {
  return begin(comm, config);
}
#endif
int ncclCommFinalize(void*) {
  return operation();
}
int ncclCommDestroy(void*) {
  play.dead = true;
  return kSuccess;
}
int ncclCommAbort(void*) {
  ++play.aborts;
  play.dead = true;
  return kSuccess;
}
int ncclCommGetAsyncError(void*, int* state) {
  if (play.dead) ++play.used_after_abort;
  ++play.looks;
  *state = kSuccess;
  const std::string& s = play.scenario;
  if (s == "slow init" && play.looks <= 50) *state = kInProgress;
  if (s == "init never ends" || play.hanging) *state = kInProgress;
  if (s == "async error" && play.looks > 5) *state = kRemoteError;
  return kSuccess;
}
const char* ncclGetLastError(void*) {
  return play.scenario == "async error" && play.looks > 5 ? "remote process exited" : "";
}
int ncclGroupStart() {
  return kSuccess;
}
int ncclGroupEnd() {
  if (play.scenario != "hang at group end") return kSuccess;
  play.hanging = true;
  return kInProgress;
}
int ncclAllReduce(const void*, void*, std::size_t, int, int, void*, void*) {
  return operation();
}
int ncclReduceScatter(const void*, void*, std::size_t, int, int, void*, void*) {
  return operation();
}
int ncclAllGather(const void*, void*, std::size_t, int, void*, void*) {
  return operation();
}
int ncclBroadcast(const void*, void*, std::size_t, int, int, void*, void*) {
  return operation();
}
int ncclSend(const void*, std::size_t, int, int peer, void*, void*) {
  (void)operation();
  return peer == 99 ? kInvalidArgument : kSuccess;
}
int ncclRecv(void*, std::size_t, int, int, void*, void*) {
  return operation();
}
int ncclCommRegister(void*, void*, std::size_t, void** handle) {
  *handle = &play;
  return operation();
}

}  // extern "C"
