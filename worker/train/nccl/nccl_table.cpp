#include "worker/train/nccl/nccl_table.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace stoker::train {
namespace {

constexpr int kOldest = 22400;

struct Library {
  void* handle;
  std::string missing;  // the first function that was not found
  template <class F>
  void find(const char* name, F& function) {
    function = reinterpret_cast<F>(::dlsym(handle, name));
    if (function == nullptr && missing.empty()) missing = name;
  }
};

}  // namespace

std::string nccl_version_text(int code) {
  return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100);
}

Status nccl_version_allowed(int code, bool restarts_in_place) {
  if (code < kOldest)
    return fail(fmt::format("NCCL {} is too old", nccl_version_text(code)), "",
                fmt::format("install {} or later", nccl_version_text(kOldest)));
  if (restarts_in_place && code >= 22803 && code <= 22808)
    return fail(fmt::format("NCCL {} may hang when ranks restart within their processes",
                            nccl_version_text(code)),
                "", "install 2.28.9 or later, or let the ranks start as new processes");
  return ok();
}

Result<NcclTable> open_nccl(const std::string& name) {
  Library library{::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL), ""};
  if (library.handle == nullptr) {
    const char* why = ::dlerror();
    return fail(fmt::format("cannot open NCCL: {}", why == nullptr ? "unknown reason" : why), name,
                "install libnccl2, or name its folder in LD_LIBRARY_PATH");
  }
  NcclTable t;
  library.find("ncclGetVersion", t.version);
  if (t.version != nullptr && t.version(&t.code) == kNcclSuccess) {
    if (auto allowed = nccl_version_allowed(t.code, false); !allowed) {
      Error error = allowed.error();
      error.object = name;
      ::dlclose(library.handle);
      return fail(std::move(error));
    }
  }
  library.find("ncclGetUniqueId", t.unique_id);
  library.find("ncclCommInitRankConfig", t.init);
  library.find("ncclCommSplit", t.split);
  library.find("ncclCommFinalize", t.finalize);
  library.find("ncclCommDestroy", t.destroy);
  library.find("ncclCommAbort", t.abort);
  library.find("ncclCommGetAsyncError", t.async_error);
  library.find("ncclGetLastError", t.last_error);
  library.find("ncclGroupStart", t.group_start);
  library.find("ncclGroupEnd", t.group_end);
  library.find("ncclAllReduce", t.all_reduce);
  library.find("ncclReduceScatter", t.reduce_scatter);
  library.find("ncclAllGather", t.all_gather);
  library.find("ncclBroadcast", t.broadcast);
  library.find("ncclSend", t.send);
  library.find("ncclRecv", t.receive);
  library.find("ncclCommRegister", t.register_buffer);
  if (!library.missing.empty()) {
    ::dlclose(library.handle);
    return fail(
        fmt::format("NCCL {} lacks the function {}", nccl_version_text(t.code), library.missing),
        name, "install the libnccl2 that belongs to this CUDA");
  }
  return t;  // the library stays open until the process ends
}

}  // namespace stoker::train
