// NCCL through its table, against a fake library on a virtual clock: deadlines, errors that name
// the peers, and exactly one abort.
#include "worker/train/nccl/nccl_group.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

using namespace stoker;
using namespace stoker::train;

namespace {

const std::string kFolder = STOKER_FAKE_NCCL;

// The fake library on a clock that only pauses move.
struct Stage {
  explicit Stage(const char* scenario) : library(::dlopen(path().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE(library != nullptr);
    reinterpret_cast<void (*)(const char*)>(::dlsym(library, "fake_nccl_play"))(scenario);
  }
  ~Stage() { ::dlclose(library); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  static std::string path() { return kFolder + "/libfake_nccl.so"; }

  [[nodiscard]] int count(const char* what) const {
    return reinterpret_cast<int (*)(const char*)>(::dlsym(library, "fake_nccl_count"))(what);
  }
  [[nodiscard]] std::string name() const {
    return reinterpret_cast<const char* (*)()>(::dlsym(library, "fake_nccl_name"))();
  }
  NcclPorts ports() {
    return {*open_nccl(path()), [this](void*) { return stream; }, [this] { return clock; },
            [this](Duration d) { clock += d; }, [this] { return clock >= leave_at; }};
  }
  Result<NcclGroup> group(Duration deadline = 10s) {
    NcclPorts all = ports();
    NcclId id;
    REQUIRE(all.nccl.unique_id(&id) == 0);
    return NcclGroup::begin(all, {"data", {3, 7, 11}, 1}, id, deadline);
  }

  void* library;
  Instant clock{}, leave_at = Instant::max();
  int stream = 0;  // what cudaStreamQuery says
};

bool has(const Error& error, const std::string& words) {
  const bool found = error.message().find(words) != std::string::npos;
  if (!found) MESSAGE(error.message());
  return found;
}

}  // namespace

TEST_CASE("open_nccl: a library, none, one that is too old, one that lacks a function") {
  CHECK(open_nccl(Stage::path())->code == 22809);
  CHECK(has(open_nccl("libno_such_nccl.so.2").error(), "cannot open NCCL"));
  CHECK(has(open_nccl(kFolder + "/libfake_nccl_old.so").error(),
            "NCCL 2.23.4 is too old; install 2.24.0 or later"));
  CHECK(has(open_nccl(kFolder + "/libfake_nccl_cut.so").error(),
            "NCCL 2.28.9 lacks the function ncclCommSplit"));
}

TEST_CASE("nccl_version_allowed: 2.28.3 to 2.28.8 -> refused for restarts in place alone") {
  CHECK_FALSE(nccl_version_allowed(22399, false));
  for (const int code : {22400, 22802, 22803, 22808, 22809, 23001})
    CHECK(nccl_version_allowed(code, false));
  CHECK(nccl_version_allowed(22802, true));
  CHECK_FALSE(nccl_version_allowed(22803, true));
  CHECK_FALSE(nccl_version_allowed(22808, true));
  CHECK(nccl_version_allowed(22809, true));
}

TEST_CASE("NcclGroup: a good day -> operations are taken, no abort, the name is shown") {
  Stage stage("good");
  auto group = stage.group();
  REQUIRE(group);
  CHECK(stage.name() == "data");
  float x[3] = {};
  CHECK(group->all_reduce(x, 1, NcclType::F32, NcclSum::Sum, {nullptr, "gradients", 1s}));
  CHECK(group->reduce_scatter(x, x, 1, NcclType::F32, {nullptr, "gradients", 1s}));
  CHECK(group->all_gather(x, x, 1, NcclType::F32, {nullptr, "parameters", 1s}));
  CHECK(group->broadcast(x, 1, NcclType::F32, 0, {nullptr, "seed", 1s}));
  CHECK(group->exchange({{x, 1, NcclType::F32, 0, true}, {x, 1, NcclType::F32, 2, false}},
                        {nullptr, "activations", 1s}));
  CHECK(group->register_buffer(x, sizeof x));
  CHECK(group->wait({nullptr, "gradients", 1s}));
  auto part = group->split(0, {"tensor", {7, 11}, 0}, 1s);
  REQUIRE(part);
  CHECK(stage.name() == "tensor");
  CHECK(group->end(1s));
  CHECK(has(group->wait({nullptr, "late", 1s}).error(), "the group has ended"));
  CHECK(stage.count("aborts") == 0);
}

TEST_CASE(
    "NcclGroup: a slow start -> waits; one that never ends -> an error that names the peers") {
  Stage slow("slow init");
  CHECK(slow.group(10s));
  CHECK(slow.count("looks") > 50);
  Stage never("init never ends");
  const auto group = never.group(10s);
  REQUIRE_FALSE(group);
  CHECK(has(group.error(),
            "NCCL group \"data\": the start with ranks 3, 11 failed after 10.0 s: no "
            "end within 10.0 s"));
  CHECK(never.count("aborts") == 1);
}

TEST_CASE("NcclGroup: asked to leave during the start -> aborted at once, once") {
  Stage stage("init never ends");
  stage.leave_at = stage.clock + 2s;
  const auto group = stage.group(60s);
  REQUIRE_FALSE(group);
  CHECK(has(group.error(), "failed after 2.0 s: asked to leave"));
  CHECK(stage.count("aborts") == 1);
}

TEST_CASE("NcclGroup: an asynchronous error -> NCCL's own words, then every call fails alike") {
  Stage stage("async error");
  auto group = stage.group();
  REQUIRE(group);
  stage.stream = 600;
  const auto waited = group->wait({nullptr, "gradients", 60s});
  REQUIRE_FALSE(waited);
  CHECK(has(waited.error(),
            "gradients with ranks 3, 11 failed after 0.0 s: NCCL error 6 (remote "
            "process exited)"));
  const int looks = stage.count("looks");
  float x = 0;
  CHECK(has(group->all_reduce(&x, 1, NcclType::F32, NcclSum::Sum, {nullptr, "norm", 1s}).error(),
            waited.error().what));
  CHECK(stage.count("looks") == looks);
  CHECK(stage.count("aborts") == 1);
  CHECK(stage.count("used_after_abort") == 0);
}

TEST_CASE("NcclGroup: a silent peer -> the deadline, the call and the peers, one abort") {
  Stage stage("silent peer");
  {
    auto group = stage.group();
    REQUIRE(group);
    stage.stream = 600;
    const auto waited = group->wait({nullptr, "gradients", 30s});
    REQUIRE_FALSE(waited);
    CHECK(
        has(waited.error(), "gradients with ranks 3, 11 failed after 30.0 s: no end within 30.0"));
  }
  CHECK(stage.count("aborts") == 1);
}

TEST_CASE(
    "NcclGroup: a hang at the group's end, a refused message, a CUDA error -> one abort each") {
  float x = 0;
  Stage hang("hang at group end");
  auto first = hang.group();
  REQUIRE(first);
  CHECK(
      has(first->exchange({{&x, 1, NcclType::F32, 0, true}}, {nullptr, "activations", 5s}).error(),
          "activations with ranks 3, 11 failed after 5.0 s: no end within 5.0 s"));
  CHECK(hang.count("aborts") == 1);
  Stage refused("good");
  auto second = refused.group();
  REQUIRE(second);
  CHECK(has(second->exchange({{&x, 1, NcclType::F32, 99, true}}, {nullptr, "send", 5s}).error(),
            "NCCL error 4"));
  CHECK(refused.count("aborts") == 1);
  Stage broken("good");
  auto third = broken.group();
  REQUIRE(third);
  broken.stream = 700;
  CHECK(has(third->wait({nullptr, "gradients", 5s}).error(), "CUDA error 700"));
  CHECK(broken.count("aborts") == 1);
}

TEST_CASE("NcclGroup: a group that goes out of scope -> aborted, so that no peer waits for it") {
  Stage stage("good");
  CHECK(stage.group());
  CHECK(stage.count("aborts") == 1);
}
