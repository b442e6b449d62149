// One GPU in the hands of one thread: what the node bench does with it. Every call of the driver
// may fail; an error is CUDA's number, 0 = none.
#pragma once

#include <functional>

#include "common/time.hpp"
#include "worker/agent/gpu/burn.hpp"
#include "worker/agent/gpu/cuda_driver.hpp"

namespace stoker::agent {

inline constexpr int kMostGpus = 64;

struct CopyRates {  // bytes a second; 0 = not measured
  double to_device = 0, to_host = 0;
  double memory = 0;      // within the card: read and written
  bool compared = false;  // what went there, within and back
  std::size_t wrong = 0;  // bytes that differ
};

struct BurnResult {
  double seconds = 0, operations_a_second = 0;
  std::size_t wrong = 0;  // words that came out wrong
};

// The card cannot go on, or says that its memory or link is damaged; not: it is busy or full.
bool is_broken(int error);

class Card {
 public:
  explicit Card(const CudaTable& cuda) : cuda_(cuda) {}
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;
  ~Card() { close(); }

  // As much memory as asked for, or a quarter of what is free.
  int open(int ordinal, std::size_t copied, std::size_t carried);
  int copy(CopyRates& rates);
  // For this long, at least once; `meanwhile` is called while the card is at work.
  int burn(const Burn& work, Duration length, std::uint32_t launches,
           const std::function<void()>& meanwhile, BurnResult& result);
  void close();
  [[nodiscard]] int compute_major() const { return major_; }

 private:
  int launch_all(void* kernel, std::uint32_t launches, const std::function<void()>& meanwhile);
  const CudaTable& cuda_;
  int device_ = 0, major_ = 0, processors_ = 1;
  void* context_ = nullptr;
  void* host_ = nullptr;
  std::size_t copied_ = 0, carried_ = 0;
  CudaPointer from_ = 0, to_ = 0;
};

// Bytes a second from the memory of one GPU to that of another one, by NVLink where there is one.
int copy_to_peer(const CudaTable& cuda, int ordinal, int peer, std::size_t bytes, double& rate);

}  // namespace stoker::agent
