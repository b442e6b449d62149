#include "worker/train/run/rank_environment.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>

#include "wire/environment.hpp"

namespace stoker::train {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

template <class T>
Status number_in(const char* name, const std::string& text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size())
    return fail(fmt::format("\"{}\" is not a number of its range", text),
                std::string("environment variable ") + name);
  return ok();
}

template <class T>
Status number(const char* name, T& out) {
  const auto text = variable(name);
  return text ? number_in(name, *text, out) : ok();
}

Status read_memory(RankEnvironment& e) {
  namespace env = wire::env;
  const std::string paths = variable(env::kMemory).value_or("");
  for (std::size_t at = 0; at < paths.size();) {
    const std::size_t end = std::min(paths.find(':', at), paths.size());
    e.memory.push_back(paths.substr(at, end - at));
    at = end + 1;
  }
  const auto load = variable(env::kMemoryLoad);
  if (!load) return ok();
  const std::size_t dot = std::min(load->find('.'), load->size());
  wire::SnapshotId id;
  STOKER_TRY_STATUS(number_in(env::kMemoryLoad, load->substr(0, dot), id.attempt.value));
  STOKER_TRY_STATUS(number_in(env::kMemoryLoad, load->substr(std::min(dot + 1, load->size())),
                              id.iteration.value));
  e.memory_load = id;
  return ok();
}

}  // namespace

Result<RankEnvironment> read_rank_environment() {
  namespace env = wire::env;
  RankEnvironment e;
  STOKER_TRY_STATUS(number("RANK", e.rank));
  STOKER_TRY_STATUS(number("WORLD_SIZE", e.world));
  e.local_world = e.world;
  STOKER_TRY_STATUS(number("LOCAL_WORLD_SIZE", e.local_world));
  STOKER_TRY_STATUS(number("MASTER_PORT", e.master_port));
  STOKER_TRY_STATUS(read_memory(e));
  STOKER_TRY_STATUS(number(env::kGeneration, e.generation.value));
  STOKER_TRY_STATUS(number(env::kAttempt, e.attempt.value));
  STOKER_TRY_STATUS(number(env::kSkipSamples, e.skip_samples));
  STOKER_TRY_STATUS(number(env::kLrScale, e.lr_scale));
  std::int64_t exit_before = 0;
  STOKER_TRY_STATUS(number(env::kExitBefore, exit_before));
  if (exit_before > 0) e.exit_before = WallTime(Duration(exit_before));
  if (e.world == 0 || e.rank >= e.world)
    return fail(fmt::format("rank {} of {}", e.rank, e.world), "RANK and WORLD_SIZE");
  if (!std::isfinite(e.lr_scale) || e.lr_scale <= 0)
    return fail("must be above 0", std::string("environment variable ") + env::kLrScale);
  e.master_address = variable("MASTER_ADDR").value_or(e.master_address);
  e.run = variable(env::kRun).value_or(e.run);
  e.run_directory = variable(env::kRunDirectory);
  e.heartbeat = variable(env::kHeartbeat);
  e.start = variable(env::kStart);
  e.load = variable(env::kLoad);
  e.store_prefix =
      variable(env::kStorePrefix)
          .value_or(fmt::format("{}.{}.{}", e.run, e.generation.value, e.attempt.value));
  return e;
}

}  // namespace stoker::train
