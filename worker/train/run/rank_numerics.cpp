#include "worker/train/run/rank_numerics.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "common/hash.hpp"
#include "common/os/files.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kMostText = 2000;

std::string cpu_model() {
  constexpr std::size_t kEnough = 1u << 20;
  const auto text = os::read_file("/proc/cpuinfo", kEnough);
  const std::string key = "model name\t: ";
  const auto at = text ? text->find(key) : std::string::npos;
  if (at == std::string::npos) return "unknown";
  const auto begin = at + key.size();
  return text->substr(begin, text->find('\n', begin) - begin);
}

std::string build_id() {
  const auto hash = xxh3_64_file("/proc/self/exe");
  return hash ? hex64(*hash) : "unknown";
}

struct Text {  // travels between ranks as it is
  char bytes[kMostText] = {};
};

}  // namespace

std::map<std::string, std::string> own_numerics(std::map<std::string, std::string> library,
                                                recipe::Numerics wanted) {
  library["build"] = build_id();
  if (wanted == recipe::Numerics::Native) library["cpu"] = cpu_model();
  return library;
}

Result<std::map<std::string, std::string>> numerics_of_all(
    Comm& comm, const std::map<std::string, std::string>& own, Duration deadline) {
  const std::string mine = Json(own).dump();
  Text sent;
  // What does not fit is cut on every rank alike, and then compared by its digest alone.
  const std::string text = mine.size() < kMostText ? mine : hex64(xxh3_64(mine));
  std::memcpy(sent.bytes, text.data(), text.size());
  std::vector<Text> all(comm.mesh().world());
  STOKER_TRY_STATUS(
      comm.all_gather(Axis::World, &sent, sizeof sent, all.data(), {"numerics", deadline}));
  std::string together;
  bool alike = true;
  for (Text& one : all) {
    one.bytes[kMostText - 1] = '\0';
    alike = alike && std::strcmp(one.bytes, all[0].bytes) == 0;
    together += std::string(one.bytes) + "\n";
  }
  auto first =
      from_json_text<std::map<std::string, std::string>>(all[0].bytes, "rank 0's numerics");
  auto numerics = first ? std::move(*first) : own;
  numerics["ranks"] = alike ? "alike" : "mixed " + hex64(xxh3_64(together));
  return numerics;
}

}  // namespace stoker::train
