// The emulated CUDA runtime beside kernels: memory, streams, events, copies, cards. A stream is a
// queue: what is queued runs when something waits for it, and by chance before. So what reads too
// early, or writes under a copy that was not waited for, fails in some order. Between two tasks
// device memory is poisoned: the address sanitizer sees every access of the CPU. Ranks that are
// threads of a test may share the runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cuda_on_cpu {

// False: it cannot be done yet (a collective whose peers have not come) and is asked again.
using Task = std::function<bool()>;

struct Stream;
struct Event;

// Eager (the default): a task runs at once where its stream allows. Lazy: see above.
void set_lazy(bool lazy);
// While it is true only default streams go on.
void hold_others(bool now);
// Null: the default stream of this thread. A task that cannot be done yet is tried again and again.
void enqueue(Stream* stream, Task task);

struct Card {
  int driver = 13000, count = 1, major = 9, minor = 0, compute_mode = 0;
  std::size_t memory = std::size_t{1} << 30;
  std::string bus = "0000:1b:00.0";
  int device_error = 0;  // of cudaSetDevice
  int error = 0;         // sticky: of every call from now on
};
Card& card();

// Answers of the runtime, as numbers of cudaError_t.
int allocate(void** out, std::size_t bytes);
int release(void* memory);
bool is_device(const void* memory);
std::size_t allocated();
Stream* new_stream();
void end_stream(Stream* stream);
int query(Stream* stream);        // 0 or 600
int synchronize(Stream* stream);  // also tasks of others that it waits for
Event* new_event();
void end_event(Event* event);
void record(Event* event, Stream* stream);
void wait(Stream* stream, Event* event);
// What is queued on the stream is kept instead, until end_keeping(). Null: something waited.
using Kept = std::vector<Task>;
void begin_keeping(Stream* stream);
std::unique_ptr<Kept> end_keeping(Stream* stream);
// Of a kernel's dynamic shared memory, in bytes; without allow_shared() the first.
inline constexpr std::size_t kPlainShared = 48 * 1024;
void allow_shared(const void* kernel, std::size_t bytes);
std::size_t allowed_shared(const void* kernel);
// Runs `use` while device memory may be touched. What a task touches, it touches so: to open and to
// close all memory takes long, and a task that waits for another rank is tried often.
void with_memory(const std::function<void()>& use);

}  // namespace cuda_on_cpu
