#include "tests/cuda_on_cpu/emulator/runtime.hpp"

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "tests/cuda_on_cpu/emulator/sanitizer.hpp"

namespace cuda_on_cpu {

struct Stream {
  std::deque<Task> tasks;
  bool is_default = false;
  bool asleep = false;  // its tasks run when something waits for them, not before
  std::unique_ptr<Kept> kept;
  bool waited = false;  // while they were kept
};
struct Event {
  std::uint64_t recorded = 0, reached = 0;
};

namespace {

constexpr int kNotReady = 600, kNoMemory = 2, kNotWhileKept = 900;

std::recursive_mutex mutex;  // of all below, and of the grid
std::map<const char*, std::size_t> memories;
std::size_t used = 0;
std::set<Stream*> streams;
bool lazy = false, open = false, held = false;
std::mt19937_64 chance{7};  // NOLINT: the same order for the same program
Card the_card;
std::map<const void*, std::size_t> shared_limits;  // of kernels that were given more

Stream* stream_of(Stream* stream) {
  thread_local const auto own = [] {
    auto made = std::unique_ptr<Stream, void (*)(Stream*)>(new_stream(), end_stream);
    made->is_default = true;
    return made;
  }();
  return stream != nullptr ? stream : own.get();
}

void set_poison(bool poisoned) {
  for (const auto& [memory, bytes] : memories) poison(memory, bytes, poisoned);
}

// The first task of the stream, if it can be done.
bool step(Stream& stream) {
  if (stream.tasks.empty() || (held && !stream.is_default)) return false;
  const Task task = stream.tasks.front();
  bool done = false;
  try {
    done = task();
  } catch (...) {  // a Fault of the kernel: it has ended
    stream.tasks.pop_front();
    throw;
  }
  if (done) stream.tasks.pop_front();
  return done;
}

// Anything that can be done, in any stream; of sleeping ones where `all`.
bool step_any(bool all = true) {
  std::vector<Stream*> ready;
  for (Stream* stream : streams)
    if (!stream->tasks.empty() && (all || !stream->asleep)) ready.push_back(stream);
  if (ready.empty()) return false;
  const std::size_t first = chance() % ready.size();
  for (std::size_t i = 0; i < ready.size(); ++i)
    if (step(*ready[(first + i) % ready.size()])) return true;
  return false;
}

}  // namespace

void set_lazy(bool now) {
  const std::lock_guard lock(mutex);
  while (step_any()) {
  }
  lazy = now;
}

void hold_others(bool now) {
  const std::lock_guard lock(mutex);
  held = now;
}

Card& card() {
  return the_card;
}

void with_memory(const std::function<void()>& use) {
  const std::lock_guard lock(mutex);
  if (open) return use();
  struct Close {
    ~Close() {
      open = false;
      set_poison(true);
    }
  } close;
  set_poison(false);
  open = true;
  use();
}

void enqueue(Stream* stream, Task task) {
  const std::lock_guard lock(mutex);
  Stream* to = stream_of(stream);
  if (to->kept != nullptr) {
    to->kept->push_back(std::move(task));
    return;
  }
  if (to->tasks.empty()) to->asleep = lazy && chance() % 4 != 0;
  to->tasks.push_back(std::move(task));
  if (!lazy)
    while (step(*to)) {
    }
  else
    for (std::uint64_t n = chance() % 3; n > 0; --n) step_any(false);
}

int allocate(void** out, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  *out = used + bytes <= the_card.memory ? std::malloc(bytes) : nullptr;
  if (*out == nullptr) return kNoMemory;
  memories[static_cast<char*>(*out)] = bytes;
  used += bytes;
  poison(*out, bytes, !open);
  return 0;
}

int release(void* memory) {
  if (memory == nullptr) return 0;
  const std::lock_guard lock(mutex);
  while (step_any()) {  // cudaFree waits for the device
  }
  const auto found = memories.find(static_cast<const char*>(memory));
  if (found == memories.end()) return 1;
  poison(memory, found->second, false);
  used -= found->second;
  memories.erase(found);
  std::free(memory);
  return 0;
}

bool is_device(const void* memory) {
  const std::lock_guard lock(mutex);
  const auto* at = static_cast<const char*>(memory);
  auto after = memories.upper_bound(at);
  if (after == memories.begin()) return false;
  --after;
  return at < after->first + after->second;
}

std::size_t allocated() {
  const std::lock_guard lock(mutex);
  return used;
}

Stream* new_stream() {
  const std::lock_guard lock(mutex);
  return *streams.insert(new Stream).first;
}

void end_stream(Stream* stream) {
  const std::lock_guard lock(mutex);
  streams.erase(stream);
  delete stream;
}

int query(Stream* stream) {
  const std::lock_guard lock(mutex);
  Stream* of = stream_of(stream);
  if (of->kept != nullptr) return of->waited = true, kNotWhileKept;
  if (of->tasks.empty()) return 0;
  (void)step_any();
  return of->tasks.empty() ? 0 : kNotReady;
}

int synchronize(Stream* stream) {
  Stream* of = stream_of(stream);
  for (;;) {
    {
      const std::lock_guard lock(mutex);
      if (of->kept != nullptr) return of->waited = true, kNotWhileKept;
      if (of->tasks.empty()) return 0;
      if (step(*of) || step_any()) continue;
    }
    std::this_thread::yield();  // another rank's thread must come
  }
}

void begin_keeping(Stream* stream) {
  const std::lock_guard lock(mutex);
  stream->kept = std::make_unique<Kept>();
  stream->waited = false;
}
std::unique_ptr<Kept> end_keeping(Stream* stream) {
  const std::lock_guard lock(mutex);
  std::unique_ptr<Kept> kept = std::move(stream->kept);
  return stream->waited ? nullptr : std::move(kept);
}

Event* new_event() {
  return new Event;
}
void end_event(Event* event) {
  const std::lock_guard lock(mutex);
  delete event;
}

void record(Event* event, Stream* stream) {
  const std::lock_guard lock(mutex);
  const std::uint64_t turn = ++event->recorded;
  enqueue(stream, [event, turn] {
    event->reached = turn;
    return true;
  });
}

void wait(Stream* stream, Event* event) {
  const std::lock_guard lock(mutex);
  const std::uint64_t turn = event->recorded;
  enqueue(stream, [event, turn] { return event->reached >= turn; });
}

void allow_shared(const void* kernel, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  shared_limits[kernel] = bytes;
}
std::size_t allowed_shared(const void* kernel) {
  const std::lock_guard lock(mutex);
  const auto found = shared_limits.find(kernel);
  return found != shared_limits.end() ? found->second : kPlainShared;
}

}  // namespace cuda_on_cpu
