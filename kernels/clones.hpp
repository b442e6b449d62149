// STOKER_CLONES: compiles a function for AVX2 too and chooses at load time. Only for integer work
// and for IEEE operations without contraction (+ - * / sqrt), which give the same bits either way.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define STOKER_CLONES __attribute__((target_clones("avx2", "default")))
// With 64-bit products, which only AVX-512 has as vectors.
#define STOKER_CLONES_WIDE __attribute__((target_clones("arch=x86-64-v4", "default")))
#else
#define STOKER_CLONES
#define STOKER_CLONES_WIDE
#endif
