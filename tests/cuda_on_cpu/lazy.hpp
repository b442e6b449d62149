// While it lives the emulated device's streams run late; a real device's do so anyway.
#pragma once

#if defined(STOKER_EMULATED)
#include "tests/cuda_on_cpu/emulator/runtime.hpp"
#endif

struct Lazy {
#if defined(STOKER_EMULATED)
  Lazy() {
    cuda_on_cpu::set_lazy(true);
  }
  ~Lazy() {
    cuda_on_cpu::card() = {};
    cuda_on_cpu::set_lazy(false);
  }
#else
  Lazy() {}
  ~Lazy() {}
#endif
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
};
