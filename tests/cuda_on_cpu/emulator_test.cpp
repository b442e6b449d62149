// The emulated grid itself: what it computes, and that it finds a missing barrier, an index outside
// and what would hang.
#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/tiles.hpp"
#include "tests/cuda_on_cpu/device.hpp"

using namespace stoker::kernels;

namespace {

constexpr unsigned kThreads = 64;

// Turns each block's values around in shared memory. The faults are what a tired person writes.
enum class Mistake { None, NoBarrier, OffByOne };

template <Mistake M>
__global__ void reverse(const int* in, int* out, Index count) {
  STOKER_SHARED(int, values, kThreads);
  const Index i = first_element();
  const bool mine = M == Mistake::OffByOne ? i <= count : i < count;
  values[threadIdx.x] = mine ? in[i] : 0;
  if constexpr (M != Mistake::NoBarrier) __syncthreads();
  if (i < count) out[i] = values[kThreads - 1 - threadIdx.x];
}

template <Mistake M>
std::vector<int> reversed(std::uint64_t seed, std::size_t count) {
  std::vector<int> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<int>(i) + 1;
  const Device<int> in(values), out(count);
  set_order(seed);
  const Grid grid{blocks_for(static_cast<Index>(count), kThreads), kThreads};
  CHECK(launch(grid, nullptr, reverse<M>, in.data(), out.data(), static_cast<Index>(count)) == 0);
  return out.host();
}

bool is_reversed(const std::vector<int>& got) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t block = i / kThreads * kThreads, from = block + kThreads - 1 - i % kThreads;
    if (got[i] != (from < got.size() ? static_cast<int>(from) + 1 : 0)) return false;
  }
  return true;
}

std::string fault_of(void (*kernel)(int), unsigned threads = kThreads) {
  try {
    (void)launch(Grid{1, threads}, nullptr, kernel, 0);
  } catch (const cuda_on_cpu::Fault& fault) {
    return fault.what();
  }
  return "no fault";
}

__global__ void half_waits(int) {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void two_barriers(int) {
  if (threadIdx.x < 40)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void half_a_warp_votes(int) {
  if (threadIdx.x % 2 == 0) __any_sync(kAllLanes, 1);
}
__global__ void too_much_shared(int) {
  STOKER_SHARED(double, values, 7000);
  values[threadIdx.x] = 0;
}

__global__ void warp_words(unsigned* out) {
  const unsigned me = threadIdx.x, lane = me % kWarp;
  out[me] = __shfl_sync(kAllLanes, me, 3);
  out[kThreads + me] = __shfl_xor_sync(kAllLanes, me, 1);
  out[2 * kThreads + me] = __shfl_down_sync(kAllLanes, me, 2u);
  out[3 * kThreads + me] = __ballot_sync(kAllLanes, lane < 5);
  out[4 * kThreads + me] = static_cast<unsigned>(__any_sync(kAllLanes, me == 33));
  out[5 * kThreads + me] = static_cast<unsigned>(__all_sync(kAllLanes, me < 40));
}

__global__ void count_up(unsigned* counter, unsigned* most) {
  atomicAdd(counter, 1u);
  atomicMax(most, threadIdx.x);
}

// Two sums of a block through one scratch, without the barrier between them that block_sum has.
__global__ void hasty_sums(const double* in, double* out) {
  STOKER_SHARED(double, scratch, kBlockThreads / kWarp);
  double result = 0;
  for (int factor = 1; factor <= 2; ++factor) {
    const double sum = warp_sum(in[threadIdx.x] * factor);
    if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = sum;
    __syncthreads();
    for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) result += scratch[warp];
  }
  out[threadIdx.x] = result;
}

__global__ void sums(const double* in, double* out) {
  STOKER_SHARED(double, scratch, kThreads / kWarp);
  const double first = block_sum(in[threadIdx.x], scratch);
  const double second = block_sum(in[threadIdx.x] * 2, scratch);
  out[threadIdx.x] = first + second;
}

constexpr std::size_t kRows = 16, kInner = 16, kColumns = 8;

// sum [16 x 8] = left [16 x 16] x right [16 x 8], by one warp; of `right` as it is, and of its
// transpose [8 x 16].
__global__ void tensor_core_product(const Bf16* left, const Bf16* right, const Bf16* transpose,
                                    float* out) {
  STOKER_SHARED(Bf16, all, kRows * kInner + 2 * kInner * kColumns);
  Bf16 *mine = all, *theirs = mine + kRows * kInner, *turned = theirs + kInner * kColumns;
  const unsigned lane = threadIdx.x;
  for (unsigned i = 8 * lane; i < kRows * kInner; i += 8 * kWarp)
    copy_beside(mine + i, left + i, true);
  copy_beside((lane < 16 ? theirs : turned) + lane % 16 * 8,
              (lane < 16 ? right : transpose) + lane % 16 * 8, true);
  copies_done();
  __syncthreads();
  std::uint32_t a[4], b[4], c[4];
  load_matrices(mine + lane % 16 * kInner + lane / 16 * 8, a);
  load_transposed(theirs + lane % 16 * kColumns, b);                // the first two of four
  load_matrices(turned + lane % 8 * kInner + lane / 8 % 2 * 8, c);  // the same
  float sums[2][4] = {};
  multiply_add(sums[0], a, b[0], b[1]);
  multiply_add(sums[1], a, c[0], c[1]);
  for (unsigned way = 0; way < 2; ++way)
    for (unsigned i = 0; i < 4; ++i)
      out[way * kRows * kColumns + (lane / 4 + i / 2 * 8) * kColumns + lane % 4 * 2 + i % 2] =
          sums[way][i];
}

// Each thread gets what its neighbour copied, twice through the same place.
enum class Slip { None, NoWait, NoBarrier, TooEarly };
template <Slip S>
__global__ void pass_on(const float* in, float* out) {
  STOKER_SHARED(float, values, kThreads);
  const unsigned me = threadIdx.x;
  for (unsigned turn = 0; turn < 2; ++turn) {
    copy_beside(values + me, in + turn * kThreads + me, me + 1 < kThreads);
    if (S != Slip::NoWait) copies_done();
    if (S != Slip::NoBarrier) __syncthreads();
    out[turn * kThreads + me] = values[(me + 1) % kThreads];
    if (S != Slip::TooEarly) __syncthreads();
  }
  if (S == Slip::NoWait) copies_done();
}
template <Slip S>
bool passes_on(std::uint64_t seed) {
  std::vector<float> values(2 * kThreads);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  const Device<float> in(values), out(values.size());
  set_order(seed);
  CHECK(launch(Grid{1, kThreads}, nullptr, pass_on<S>, in.data(), out.data()) == 0);
  const auto got = out.host();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float want = i % kThreads == kThreads - 2   ? 0.0f
                       : i % kThreads == kThreads - 1 ? values[i / kThreads * kThreads]
                                                      : values[i + 1];
    if (got[i] != want) return false;
  }
  return true;
}

__global__ void never_waits(int) {
  STOKER_SHARED(float, values, kThreads);
  static const float nothing[1] = {};
  for (int i = 0; i < 32; ++i) copy_beside(values + threadIdx.x, nothing, false);
}
__global__ void copies_askew(int) {
  STOKER_SHARED(Bf16, values, 16);
  copy_beside(values + 1, values, true);
}
__global__ void reads_askew(int) {
  STOKER_SHARED(Bf16, values, 16);
  std::uint32_t words[4];
  load_matrices(values + 4, words);
}
__global__ void uses_dynamic(int* out) {
  STOKER_DYNAMIC_SHARED(int, values);
  values[threadIdx.x] = 1;
  out[threadIdx.x] = values[threadIdx.x];
}

}  // namespace

TEST_CASE("emulated grid: shared memory and a barrier -> right for every order of threads") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    CHECK(is_reversed(reversed<Mistake::None>(seed, 150)));
}

TEST_CASE("emulated grid: a removed __syncthreads -> noticed for every seed") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    CHECK_FALSE(is_reversed(reversed<Mistake::NoBarrier>(seed, 150)));
}

TEST_CASE("emulated grid: an off-by-one in a bound -> the address sanitizer names the line") {
#if defined(__SANITIZE_ADDRESS__)
  int channel[2];
  REQUIRE(pipe(channel) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(channel[1], STDERR_FILENO);
    (void)reversed<Mistake::OffByOne>(1, 150);
    _exit(0);
  }
  close(channel[1]);
  std::string report;
  char piece[4096];
  for (ssize_t n = 0; (n = read(channel[0], piece, sizeof piece)) > 0;)
    report.append(piece, static_cast<std::size_t>(n));
  close(channel[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK_FALSE((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  CHECK(report.find("heap-buffer-overflow") != std::string::npos);
  CHECK(report.find("reverse") != std::string::npos);
#else
  MESSAGE("SKIPPED: compiled without the address sanitizer");
#endif
}

TEST_CASE("emulated grid: threads that would wait for ever -> a fault that names the place") {
  CHECK(fault_of(half_waits).find("40 of 64 threads wait at the barrier emulator_test.cpp:") == 0);
  CHECK(fault_of(half_waits).find(", 24 have left the kernel") != std::string::npos);
  CHECK(fault_of(two_barriers).find("threads of one block wait at emulator_test.cpp:") == 0);
  CHECK(fault_of(half_a_warp_votes).find("32 of 64 threads wait at the exchange") == 0);
  CHECK(fault_of(too_much_shared) == "more than 48 KiB of static shared memory");
  CHECK(fault_of(half_waits, 48) == "a block needs 32 to 1024 threads, a multiple of 32");
  CHECK(is_reversed(reversed<Mistake::None>(1, 64)));  // after faults all is as before
}

TEST_CASE("emulated grid: shuffles and votes -> the values of the programming guide") {
  const Device<unsigned> out(6 * kThreads);
  CHECK(launch(Grid{1, kThreads}, nullptr, warp_words, out.data()) == 0);
  const auto got = out.host();
  for (unsigned me = 0; me < kThreads; ++me) {
    const unsigned warp = me / kWarp * kWarp, lane = me % kWarp;
    CHECK(got[me] == warp + 3);
    CHECK(got[kThreads + me] == (me ^ 1u));
    CHECK(got[2 * kThreads + me] == (lane < 30 ? me + 2 : me));
    CHECK(got[3 * kThreads + me] == 31u);
    CHECK(got[4 * kThreads + me] == (me >= kWarp ? 1u : 0u));
    CHECK(got[5 * kThreads + me] == (me < kWarp ? 1u : 0u));
  }
}

TEST_CASE("emulated grid: atomics of all threads of all blocks -> no addition is lost") {
  const Device<unsigned> counter(std::vector<unsigned>{0}), most(std::vector<unsigned>{0});
  CHECK(launch(Grid{7, kThreads}, nullptr, count_up, counter.data(), most.data()) == 0);
  CHECK(counter.host()[0] == 7 * kThreads);
  CHECK(most.host()[0] == kThreads - 1);
}

TEST_CASE("block_sum: two sums through one scratch -> both whole, for every order") {
  std::vector<double> values(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) values[i] = i;
  const Device<double> in(values), out(kThreads);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    set_order(seed);
    CHECK(launch(Grid{1, kThreads}, nullptr, sums, in.data(), out.data()) == 0);
    for (const double x : out.host()) CHECK(x == 3 * (kThreads - 1) * kThreads / 2.0);
  }
}

TEST_CASE("emulated grid: a scratch that is used again too early -> noticed in every fifth order") {
  const Device<double> in(std::vector<double>(kBlockThreads, 1.0)), out(kBlockThreads);
  int noticed = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    set_order(seed);
    CHECK(launch(Grid{1}, nullptr, hasty_sums, in.data(), out.data()) == 0);
    const auto got = out.host();
    noticed +=
        std::any_of(got.begin(), got.end(), [](double x) { return x != 3.0 * kBlockThreads; });
  }
  CHECK(noticed >= 4);
}

TEST_CASE("emulated tensor cores: random matrices -> the product by its definition") {
  const std::vector<Bf16> left = narrow(draw(1, kRows * kInner)),
                          right = narrow(draw(2, kInner * kColumns));
  std::vector<Bf16> transpose(right.size());
  for (std::size_t k = 0; k < kInner; ++k)
    for (std::size_t j = 0; j < kColumns; ++j) transpose[j * kInner + k] = right[k * kColumns + j];
  const Device<Bf16> a(left), b(right), c(transpose);
  const Device<float> out(2 * kRows * kColumns);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    set_order(seed);
    CHECK(launch(Grid{1, kWarp}, nullptr, tensor_core_product, a.data(), b.data(), c.data(),
                 out.data()) == 0);
    const auto got = out.host();
    for (std::size_t i = 0; i < kRows; ++i)
      for (std::size_t j = 0; j < kColumns; ++j) {
        double want = 0;
        for (std::size_t k = 0; k < kInner; ++k)
          want += static_cast<double>(to_float(left[i * kInner + k])) *
                  static_cast<double>(to_float(right[k * kColumns + j]));
        CHECK(static_cast<double>(got[i * kColumns + j]) == doctest::Approx(want).epsilon(1e-5));
        CHECK(got[kRows * kColumns + i * kColumns + j] == got[i * kColumns + j]);
      }
  }
}

TEST_CASE("emulated copies: a wait or a barrier that is missing -> noticed for every seed") {
  int too_early = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    CHECK(passes_on<Slip::None>(seed));
    CHECK_FALSE(passes_on<Slip::NoWait>(seed));
    CHECK_FALSE(passes_on<Slip::NoBarrier>(seed));
    too_early += !passes_on<Slip::TooEarly>(seed);
  }
  CHECK(too_early >= 10);
}

TEST_CASE("emulated tensor cores: what the hardware refuses -> a fault that names it") {
  CHECK(fault_of(never_waits) == "a copy that its thread never waits for");
  CHECK(fault_of(copies_askew) == "an asynchronous copy to an address that is not aligned");
  CHECK(fault_of(reads_askew) == "ldmatrix from an address that is not aligned");
  const Device<int> out(kThreads);
  const Grid grid{1, kThreads, 100 * 1024}, large{1, kThreads, 228 * 1024};
  cudaLaunchConfig_t how;
  how.blockDim = kThreads, how.dynamicSmemBytes = grid.shared_bytes;
  CHECK(cudaLaunchKernelEx(&how, uses_dynamic, out.data()) == cudaErrorInvalidValue);
  CHECK(launch(large, nullptr, uses_dynamic, out.data()) == cudaErrorInvalidValue);
  CHECK(launch(grid, nullptr, uses_dynamic, out.data()) == 0);  // which asks for it
  CHECK(out.host() == std::vector<int>(kThreads, 1));
}

TEST_CASE("indices: beyond 2^31 and 2^32 elements -> no product is cut to 32 bits") {
  static_assert(flat_index(1u << 31, 1024, 1023) == (Index{1} << 41) + 1023);
  static_assert(flat_index(0xffffffffu, 1024, 0) == Index{0xffffffff} * 1024);
  static_assert(row_start(Index{1} << 20, 50257) == Index{50257} << 20);
  CHECK(blocks_for(0, 256) == 1);
  CHECK(blocks_for(1, 256) == 1);
  CHECK(blocks_for(257, 256) == 2);
  CHECK(blocks_for(Index{1} << 40, 256) == kMostBlocks);
}
