#include "tests/cuda_on_cpu/emulator/grid.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include "tests/cuda_on_cpu/emulator/sanitizer.hpp"

namespace cuda_on_cpu {

Place place;

namespace {

constexpr std::size_t kStackBytes = 256 * 1024, kStaticLimit = 48 * 1024,
                      kDynamicLimit = 227 * 1024;
constexpr unsigned kWarp = 32;
namespace context = boost::context;

std::mt19937_64 random_order{1};  // NOLINT: the same order for the same seed
std::uint64_t below(std::uint64_t limit) {
  return random_order() % limit;
}

struct Stop {};  // unwinds a fiber after a fault

// Stacks outlive launches: mapping them costs more than most kernels.
struct Stacks {
  context::protected_fixedsize_stack allocator{kStackBytes};
  std::vector<context::stack_context> free;
  context::stack_context take() {
    context::stack_context stack;
    if (free.empty()) {
      stack = allocator.allocate();
    } else {
      stack = free.back();
      free.pop_back();
    }
    forget_stack(bottom(stack), stack.size);
    return stack;
  }
  static void* bottom(const context::stack_context& s) { return static_cast<char*>(s.sp) - s.size; }
  ~Stacks() {
    for (auto& stack : free) allocator.deallocate(stack);
  }
};
Stacks stacks;

// Gives a stack back to the pool instead of the system.
struct Pool {
  void deallocate(context::stack_context& stack) { stacks.free.push_back(stack); }
};

enum class State { Ready, AtBarrier, AtExchange, Done };

struct Thread {
  unsigned number = 0;
  Dim3 index;
  State state = State::Ready;
  Where where;
  context::stack_context stack;
  context::fiber inside, outside;
  void* fake_stack = nullptr;
  unsigned exchanges = 0;
  std::vector<std::function<void()>> copies;  // that have not landed
};

struct Warp {
  Words values[2][kWarp];  // of the even and the odd exchange
  unsigned arrived = 0;
};

class Block {
 public:
  Block(Dim3 threads, std::size_t shared_bytes, const std::function<void()>& body)
      : shared_bytes_(shared_bytes), body_(body), threads_(threads.count()) {
    for (unsigned i = 0; i < threads_.size(); ++i) {
      threads_[i].number = i;
      threads_[i].index = {i % threads.x, i / threads.x % threads.y, i / threads.x / threads.y};
      start(threads_[i]);
    }
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    stopping_ = true;
    for (Thread& thread : threads_) run(thread);
  }

  void run_all() {
    arrays_.clear();
    dynamic_ = garbage(shared_bytes_);
    static_bytes_ = 0;
    warps_.assign(threads_.size() / kWarp, {});
    ready_.clear();
    for (Thread& thread : threads_) thread.copies.clear(), make_ready(thread);
    at_barrier_ = done_ = 0;
    turns_.clear();
    if (below(2) == 0) {
      turns_.resize(warps_.size());
      std::iota(turns_.begin(), turns_.end(), 0u);
      std::shuffle(turns_.begin(), turns_.end(), random_order);
    }
    while (!ready_.empty()) {
      run(next());
      if (failure_) std::rethrow_exception(failure_);
      if (at_barrier_ > 0 && at_barrier_ == threads_.size()) release();
    }
    if (done_ != threads_.size()) throw Fault(stuck());
  }

  void wait_at_barrier(const Where& where) {
    ++at_barrier_;
    wait(State::AtBarrier, where);
  }

  const Words* exchange(const Words& mine, const Where& where) {
    Thread& thread = *current_;
    Warp& warp = warps_[thread.number / kWarp];
    Words* values = warp.values[thread.exchanges++ % 2];
    values[thread.number % kWarp] = mine;
    if (++warp.arrived < kWarp) {
      wait(State::AtExchange, where);
      return values;
    }
    warp.arrived = 0;
    const auto first = threads_.begin() + thread.number / kWarp * kWarp;
    for (auto other = first; other != first + kWarp; ++other)
      if (other->state == State::AtExchange) {
        if (!same(other->where, where)) throw Fault(divergence("warp", other->where, where));
        make_ready(*other);
      }
    maybe_switch();
    return values;
  }

  void maybe_switch() {
    if (below(2) == 0) return;
    make_ready(*current_);
    leave();
    if (stopping_) throw Stop{};
  }

  void copy_later(std::function<void()> copy) {
    if (below(2) == 0)
      copy();
    else
      current_->copies.push_back(std::move(copy));
  }
  void land_copies() {
    for (const auto& copy : current_->copies) copy();
    current_->copies.clear();
  }

  void* array(const void* key, std::size_t bytes) {
    auto& memory = arrays_[key];
    if (memory == nullptr) {
      static_bytes_ += bytes;
      if (static_bytes_ > kStaticLimit) throw Fault("more than 48 KiB of static shared memory");
      memory = garbage(bytes);
    }
    return memory.get();
  }
  [[nodiscard]] void* dynamic() const { return dynamic_.get(); }
  [[nodiscard]] unsigned lane() const { return current_->number % kWarp; }

 private:
  static std::unique_ptr<unsigned char[]> garbage(std::size_t bytes) {
    auto memory = std::make_unique_for_overwrite<unsigned char[]>(bytes);
    std::memset(memory.get(), 0xff, bytes);
    return memory;
  }
  static bool same(const Where& a, const Where& b) {
    return a.line == b.line && std::strcmp(a.file, b.file) == 0;
  }
  static std::string name(const Where& where) {
    const std::string file = where.file;
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line);
  }
  static std::string divergence(const char* whose, const Where& a, const Where& b) {
    return std::string("threads of one ") + whose + " wait at " + name(a) + " and at " + name(b);
  }

  // Half of the blocks run any thread that is ready; the others run one warp as far as it goes,
  // then the next, as a card may: a thread of another warp is then a whole phase behind.
  Thread& next() {
    std::size_t pick = below(ready_.size());
    if (!turns_.empty())
      for (std::size_t i = 0; i < ready_.size(); ++i)
        if (turns_[ready_[i]->number / kWarp] < turns_[ready_[pick]->number / kWarp]) pick = i;
    std::swap(ready_[pick], ready_.back());
    Thread& thread = *ready_.back();
    ready_.pop_back();
    return thread;
  }

  void start(Thread& thread) {
    thread.stack = stacks.take();
    const context::preallocated room(thread.stack.sp, thread.stack.size, thread.stack);
    thread.inside =
        context::fiber(std::allocator_arg, room, Pool{}, [this, &thread](context::fiber&& back) {
          thread.outside = std::move(back);
          entered(nullptr, &outer_bottom_, &outer_size_);
          while (!stopping_) {
            try {
              body_();
              if (!thread.copies.empty()) throw Fault("a copy that its thread never waits for");
            } catch (const Stop&) {
              break;
            } catch (...) {
              failure_ = std::current_exception();
            }
            thread.state = State::Done;
            ++done_;
            leave();
          }
          leaving(nullptr, outer_bottom_, outer_size_);
          return std::move(thread.outside);
        });
  }

  void run(Thread& thread) {
    current_ = &thread;
    place.thread = thread.index;
    void* fake = nullptr;
    leaving(&fake, Stacks::bottom(thread.stack), thread.stack.size);
    thread.inside = std::move(thread.inside).resume();
    entered(fake, nullptr, nullptr);
  }

  void leave() {  // back to run()
    Thread& thread = *current_;
    leaving(&thread.fake_stack, outer_bottom_, outer_size_);
    thread.outside = std::move(thread.outside).resume();
    entered(thread.fake_stack, &outer_bottom_, &outer_size_);
  }

  void wait(State state, const Where& where) {
    current_->state = state;
    current_->where = where;
    leave();
    if (stopping_) throw Stop{};
  }

  void make_ready(Thread& thread) {
    thread.state = State::Ready;
    ready_.push_back(&thread);
  }

  void release() {
    for (Thread& thread : threads_) {
      if (!same(thread.where, threads_[0].where))
        throw Fault(divergence("block", threads_[0].where, thread.where));
      make_ready(thread);
    }
    at_barrier_ = 0;
  }

  [[nodiscard]] std::string stuck() const {
    std::map<std::string, unsigned> waiting;
    for (const Thread& thread : threads_)
      if (thread.state != State::Done)
        ++waiting[(thread.state == State::AtBarrier ? "the barrier " : "the exchange ") +
                  name(thread.where)];
    std::string text;
    for (const auto& [where, count] : waiting)
      text += std::to_string(count) + " of " + std::to_string(threads_.size()) +
              " threads wait at " + where + ", ";
    return text + std::to_string(done_) + " have left the kernel";
  }

  std::size_t shared_bytes_;
  const std::function<void()>& body_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<Thread*> ready_;
  std::vector<unsigned> turns_;  // of the warps; empty: any thread
  std::map<const void*, std::unique_ptr<unsigned char[]>> arrays_;
  std::unique_ptr<unsigned char[]> dynamic_;
  std::size_t static_bytes_ = 0, at_barrier_ = 0, done_ = 0;
  Thread* current_ = nullptr;
  std::exception_ptr failure_;
  bool stopping_ = false;
  const void* outer_bottom_ = nullptr;
  std::size_t outer_size_ = 0;
};

Block* running = nullptr;

}  // namespace

void set_seed(std::uint64_t seed) {
  random_order.seed(seed);
}

void launch(Dim3 blocks, Dim3 threads, std::size_t shared_bytes,
            const std::function<void()>& body) {
  if (running != nullptr) throw Fault("a kernel launched a kernel");
  if (blocks.count() == 0 || blocks.x > 0x7fffffffu || blocks.y > 65535 || blocks.z > 65535)
    throw Fault("a grid outside the limits of CUDA");
  if (threads.count() == 0 || threads.count() > 1024 || threads.count() % kWarp != 0)
    throw Fault("a block needs 32 to 1024 threads, a multiple of 32");
  if (shared_bytes > kDynamicLimit) throw Fault("more than 227 KiB of dynamic shared memory");
  struct Running {
    ~Running() { running = nullptr; }
  } guard;
  place.threads = threads;
  place.blocks = blocks;
  std::vector<std::uint64_t> order(blocks.count());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_order);
  Block block(threads, shared_bytes, body);
  running = &block;
  for (const std::uint64_t i : order) {
    place.block = {static_cast<unsigned>(i % blocks.x),
                   static_cast<unsigned>(i / blocks.x % blocks.y),
                   static_cast<unsigned>(i / blocks.x / blocks.y)};
    block.run_all();
  }
}

void barrier(const Where& where) {
  running->wait_at_barrier(where);
}
const Words* warp_exchange(const Words& mine, const Where& where) {
  return running->exchange(mine, where);
}
unsigned lane() {
  return running->lane();
}
void maybe_switch() {
  running->maybe_switch();
}
void copy_later(std::function<void()> copy) {
  running->copy_later(std::move(copy));
}
void land_copies() {
  running->land_copies();
}
void* shared_array(const void* key, std::size_t bytes) {
  return running->array(key, bytes);
}
void* dynamic_shared() {
  return running->dynamic();
}

}  // namespace cuda_on_cpu
