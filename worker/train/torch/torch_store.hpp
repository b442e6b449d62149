// TorchStore: the store that the ranks met in (c10d's TCPStore on rank 0), with errors in place of
// exceptions, and the roll call that names who is missing.
#pragma once

#include <exception>
#include <optional>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "common/result.hpp"

namespace stoker::train {

class TorchStore {
 public:
  TorchStore(c10::intrusive_ptr<c10d::Store> store, std::uint32_t rank, std::uint32_t world)
      : store_(std::move(store)), rank_(rank), world_(world) {}

  [[nodiscard]] const c10::intrusive_ptr<c10d::Store>& raw() const { return store_; }
  // Errors: rank 0's store does not answer.
  Status put(const std::string& key, const std::string& value) const;
  // Nothing: it is not there yet.
  [[nodiscard]] Result<std::optional<std::string>> get(const std::string& key) const;
  // Which ranks do not answer, within a bounded time: "3, 5".
  [[nodiscard]] std::string missing_ranks() const;

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::uint32_t rank_, world_;
};

// What a c10d exception says, without the stack that follows.
std::string first_line(const std::exception& e);

}  // namespace stoker::train
