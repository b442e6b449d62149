#include "worker/agent/gpu/card.hpp"

#include <algorithm>

namespace stoker::agent {
namespace {

constexpr unsigned kThreads = 256, kBlocksAProcessor = 4;
constexpr Duration kEachCopy = 300ms;
constexpr unsigned kPattern = 0x5aa5c33c;

// Bytes a second of the fastest copy; the first one does not count.
int fastest(const CudaTable& cuda, std::size_t bytes, const std::function<int()>& copy,
            double& rate) {
  if (const int error = copy(); error != 0) return error;
  if (const int error = cuda.wait(); error != 0) return error;
  const Instant end = monotonic_now() + kEachCopy;
  do {
    const Instant begin = monotonic_now();
    if (const int error = copy(); error != 0) return error;
    if (const int error = cuda.wait(); error != 0) return error;
    const double seconds = std::max(1e-9, to_seconds(monotonic_now() - begin));
    rate = std::max(rate, static_cast<double>(bytes) / seconds);
  } while (monotonic_now() < end);
  return 0;
}

}  // namespace

// cuda.h: 214 ECC_UNCORRECTABLE, 220 NVLINK_UNCORRECTABLE, 700 to 721 errors of a running kernel.
bool is_broken(int error) {
  return error == 214 || error == 220 || (error >= 700 && error <= 721);
}

int Card::open(int ordinal, std::size_t copied, std::size_t carried) {
  int error = cuda_.device(&device_, ordinal);
  if (error == 0) error = cuda_.attribute(&major_, kCudaMajor, device_);
  if (error == 0) error = cuda_.attribute(&processors_, kCudaProcessors, device_);
  if (error != 0) return error;
  void* context = nullptr;
  if (error = cuda_.retain(&context, device_); error != 0) return error;
  context_ = context;
  std::size_t free = 0, total = 0;
  error = cuda_.use(context_);
  if (error == 0) error = cuda_.memory(&free, &total);
  copied_ = std::min(copied, free / 4) & ~std::size_t{4095};
  carried_ = std::min(carried, copied_);
  if (error == 0) error = cuda_.allocate(&from_, copied_);
  if (error == 0) error = cuda_.allocate(&to_, copied_);
  if (error == 0) error = cuda_.allocate_host(&host_, carried_, 0);
  return error;
}

void Card::close() {
  if (context_ == nullptr) return;
  cuda_.use(context_);
  if (from_ != 0) cuda_.deallocate(from_);
  if (to_ != 0) cuda_.deallocate(to_);
  if (host_ != nullptr) cuda_.deallocate_host(host_);
  cuda_.release(device_);
  context_ = host_ = nullptr;
  from_ = to_ = 0;
}

int Card::copy(CopyRates& rates) {
  auto* words = static_cast<std::uint32_t*>(host_);
  for (std::size_t i = 0; i < carried_ / 4; ++i)
    words[i] = kPattern ^ (static_cast<std::uint32_t>(i) * 2654435761u);
  int error = fastest(
      cuda_, carried_, [&] { return cuda_.to_device(from_, host_, carried_); }, rates.to_device);
  if (error == 0)
    error = fastest(
        cuda_, 2 * copied_, [&] { return cuda_.copy(to_, from_, copied_); }, rates.memory);
  if (error == 0)
    error = fastest(
        cuda_, carried_, [&] { return cuda_.to_host(host_, to_, carried_); }, rates.to_host);
  if (error != 0) return error;
  rates.compared = true;
  for (std::size_t i = 0; i < carried_ / 4; ++i)
    if (words[i] != (kPattern ^ (static_cast<std::uint32_t>(i) * 2654435761u))) rates.wrong += 4;
  return 0;
}

// The memory of the copies serves as input and result.
int Card::launch_all(void* kernel, std::uint32_t launches, const std::function<void()>& meanwhile) {
  std::uint32_t rounds = kBurnRounds;
  void* arguments[] = {&from_, &to_, &rounds};
  const auto blocks = static_cast<unsigned>(processors_) * kBlocksAProcessor;
  for (std::uint32_t i = 0; i < launches; ++i)
    if (const int error =
            cuda_.launch(kernel, blocks, 1, 1, kThreads, 1, 1, 0, nullptr, arguments, nullptr);
        error != 0)
      return error;
  meanwhile();
  return cuda_.wait();
}

int Card::burn(const Burn& work, Duration length, std::uint32_t launches,
               const std::function<void()>& meanwhile, BurnResult& result) {
  void *module = nullptr, *kernel = nullptr;
  if (const int error = cuda_.load(&module, work.ptx.data()); error != 0) return error;
  const std::size_t words = static_cast<std::size_t>(processors_) * kBlocksAProcessor * kThreads;
  int error = cuda_.function(&kernel, module, "burn");
  if (error == 0 && words * 4 > copied_) error = 2;  // out of memory
  if (error == 0) error = cuda_.to_device(from_, work.in.data(), work.in.size() * 4);
  if (error == 0) error = launch_all(kernel, 1, [] {});  // warms up
  std::vector<std::uint32_t> out(words);
  const double each = work.operations * static_cast<double>(words) * launches;
  double seconds = 0, done = 0;
  const Instant end = monotonic_now() + length;
  while (error == 0) {
    error = cuda_.fill(to_, 0, words);
    if (error == 0) error = cuda_.wait();
    const Instant begin = monotonic_now();
    if (error == 0) error = launch_all(kernel, launches, meanwhile);
    const double took = to_seconds(monotonic_now() - begin);
    if (error == 0) error = cuda_.to_host(out.data(), to_, words * 4);
    if (error != 0) break;
    seconds += took;
    done += each;
    for (std::size_t i = 0; i < words; ++i)
      if (out[i] != work.right[i % 32] * launches) ++result.wrong;
    result.seconds = seconds;
    result.operations_a_second = done / std::max(1e-9, seconds);
    if (monotonic_now() >= end) break;
  }
  cuda_.unload(module);
  return error;
}

int copy_to_peer(const CudaTable& cuda, int ordinal, int peer, std::size_t bytes, double& rate) {
  struct End {
    int device = 0;
    void* context = nullptr;
    CudaPointer memory = 0;
  } ends[2];
  int error = 0;
  const int ordinals[2] = {ordinal, peer};
  for (int i = 0; i < 2 && error == 0; ++i) {
    error = cuda.device(&ends[i].device, ordinals[i]);
    if (error == 0) error = cuda.retain(&ends[i].context, ends[i].device);
    if (error == 0) error = cuda.use(ends[i].context);
    std::size_t free = 0, total = 0;
    if (error == 0) error = cuda.memory(&free, &total);
    bytes = std::min(bytes, free / 4);
    if (error == 0) error = cuda.allocate(&ends[i].memory, bytes);
  }
  int reachable = 0;
  if (error == 0) error = cuda.can_reach(&reachable, ends[0].device, ends[1].device);
  if (error == 0) error = cuda.use(ends[0].context);
  if (error == 0 && reachable != 0) cuda.reach(ends[1].context, 0);  // fails where it is on already
  if (error == 0)
    error = fastest(
        cuda, bytes,
        [&] {
          return cuda.copy_peer(ends[1].memory, ends[1].context, ends[0].memory, ends[0].context,
                                bytes);
        },
        rate);
  for (const End& end : ends) {
    if (end.context == nullptr) continue;
    cuda.use(end.context);
    if (end.memory != 0) cuda.deallocate(end.memory);
    cuda.release(end.device);
  }
  return error;
}

}  // namespace stoker::agent
