#include "worker/train/torch/torch_store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <future>
#include <thread>

#include "common/time.hpp"

namespace stoker::train {
namespace {

constexpr Duration kRollCall = 1500ms, kRollCallPause = 20ms, kStoreStays = 300ms;

std::string call_roll(c10d::Store& store, std::uint32_t rank, std::uint32_t world) {
  const auto key = [](std::uint32_t r) { return fmt::format("roll-call/{}", r); };
  store.set(key(rank), std::vector<std::uint8_t>{1});
  // Rank 0 holds the store: it stays a little longer, so that the others can receive the answer.
  const Instant end = monotonic_now() + kRollCall + (rank == 0 ? kStoreStays : Duration{});
  std::vector<std::uint32_t> missing;
  do {
    std::vector<std::uint32_t> now;
    try {
      for (std::uint32_t r = 0; r < world; ++r)
        if (!store.check({key(r)})) now.push_back(r);
    } catch (const std::exception&) {
      if (missing.empty()) throw;
      break;  // the store left after its own roll call
    }
    missing = std::move(now);
    std::this_thread::sleep_for(kRollCallPause);
  } while (!missing.empty() && monotonic_now() < end);
  if (missing.empty()) return "none: all answer, the network between them failed";
  return fmt::format("{}", fmt::join(missing, ", "));
}

template <class F>
Status asked(const std::string& key, F ask) {
  try {
    ask();
    return ok();
  } catch (const std::exception& e) {
    return fail("peer lost: rank 0's store does not answer (" + first_line(e) + ")", key,
                "restart the ranks");
  }
}
}  // namespace

std::string first_line(const std::exception& e) {
  const std::string text = e.what();
  return text.substr(0, text.find('\n'));
}

Status TorchStore::put(const std::string& key, const std::string& value) const {
  return asked(key,
               [&] { store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end())); });
}

Result<std::optional<std::string>> TorchStore::get(const std::string& key) const {
  std::optional<std::string> value;
  STOKER_TRY_STATUS(asked(key, [&] {
    if (!store_->check({key})) return;
    const std::vector<std::uint8_t> bytes = store_->get(key);
    value.emplace(bytes.begin(), bytes.end());
  }));
  return value;
}

// Asked in a thread of its own: a store whose host is frozen would block us indefinitely.
std::string TorchStore::missing_ranks() const {
  auto answer = std::make_shared<std::promise<std::string>>();
  std::future<std::string> future = answer->get_future();
  std::thread([answer, store = store_, rank = rank_, world = world_] {
    try {
      answer->set_value(call_roll(*store, rank, world));
    } catch (const std::exception&) {
      answer->set_value("0 (it holds the store, which is gone)");
    }
  }).detach();
  if (future.wait_for(kRollCall + kStoreStays + 200ms) == std::future_status::ready)
    return future.get();
  return "0 (it holds the store, which does not answer)";
}

}  // namespace stoker::train
