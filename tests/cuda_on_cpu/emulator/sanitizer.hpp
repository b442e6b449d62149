// Informs the address sanitizer which stack runs. Without the sanitizer these functions do nothing.
#pragma once

#include <cstddef>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_on_cpu {

#if defined(__SANITIZE_ADDRESS__)
// In front of a switch: `fake` keeps what belongs to the stack that is left; null: it never goes
// on.
inline void leaving(void** fake, const void* bottom, std::size_t size) {
  __sanitizer_start_switch_fiber(fake, bottom, size);
}
inline void entered(void* fake, const void** old_bottom, std::size_t* old_size) {
  __sanitizer_finish_switch_fiber(fake, old_bottom, old_size);
}
inline void forget_stack(void* bottom, std::size_t size) {
  __asan_unpoison_memory_region(bottom, size);
}
// Memory that no code may touch while it is poisoned.
inline void poison(const void* memory, std::size_t bytes, bool poisoned) {
  if (poisoned)
    __asan_poison_memory_region(memory, bytes);
  else
    __asan_unpoison_memory_region(memory, bytes);
}
#else
inline void leaving(void**, const void*, std::size_t) {}
inline void entered(void*, const void**, std::size_t*) {}
inline void forget_stack(void*, std::size_t) {}
inline void poison(const void*, std::size_t, bool) {}
#endif

}  // namespace cuda_on_cpu
