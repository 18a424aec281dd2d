#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <type_traits>

#include "tests/emulated_gpu/block.h"

#include "ingot/core/dtype.h"

// CUDA C++ for the host's compiler: the parts of the language that our kernels use, in terms of the emulator.
// The names are CUDA's, not ours. NOLINTBEGIN(readability-identifier-naming)

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define INGOT_UNROLL
#define INGOT_ROLLED
#define INGOT_UNROLL_BY_4
// NOLINTBEGIN(bugprone-macro-parentheses): types and names that are declared take none.
// The tag's address tells one declaration from another, also between instances of a template.
#define INGOT_SHARED_ARRAY(T, name, count)                                         \
  static const char name##_tag = 0;                                                \
  T* const name = static_cast<T*>(::ingot::kernels::cuda::emulation::shared_array( \
      &name##_tag, sizeof(T) * static_cast<std::size_t>(count)))
#define INGOT_DYNAMIC_SHARED(T, name) \
  T* const name = static_cast<T*>(::ingot::kernels::cuda::emulation::dynamic_shared())
// NOLINTEND(bugprone-macro-parentheses)

namespace ingot::kernels::cuda {

inline const emulation::Size3& threadIdx = emulation::position.thread;
inline const emulation::Size3& blockIdx = emulation::position.block;
inline const emulation::Size3& blockDim = emulation::position.block_size;
inline const emulation::Size3& gridDim = emulation::position.grid_size;

using half_t = f16;
using bfloat_t = bf16;

inline float to_float(half_t x) { return static_cast<float>(x); }
inline float to_float(bfloat_t x) { return static_cast<float>(x); }
template <class T>
T from_float(float x) {
  return T(x);
}

inline void check_aligned(const void* address, std::size_t bytes, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) emulation::fail(what);
}

inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline void sincospif(float x, float* sine, float* cosine) {
  const double angle = std::numbers::pi * static_cast<double>(x);
  *sine = static_cast<float>(std::sin(angle));
  *cosine = static_cast<float>(std::cos(angle));
}
inline float __fdividef(float a, float b) { return a / b; }
// For results that the compiler must not fuse; on the host the build does not ask it to.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
/// c plus the products of the four signed bytes of a and b.
inline int __dp4a(int a, int b, int c) {
  for (int shift = 0; shift < 32; shift += 8)
    c += static_cast<std::int8_t>(a >> shift) * static_cast<std::int8_t>(b >> shift);
  return c;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((std::uint64_t{a} * b) >> 32);
}
/// Byte i of the result is the one of a (0 to 3) or b (4 to 7) that the i-th nibble of `selector` names.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  unsigned result = 0;
  for (unsigned i = 0; i < 4; ++i)
    result |= static_cast<unsigned>(bytes >> (8 * (selector >> (4 * i) & 7U)) & 255U) << (8 * i);
  return result;
}
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(unsigned x) { return x == 0 ? 0 : std::countr_zero(x) + 1; }

inline void __syncthreads(SourceLocation where = SourceLocation::current()) {
  emulation::sync_threads(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffU, SourceLocation where = SourceLocation::current()) {
  emulation::sync_warp(mask, where);
}
inline void __threadfence() {}

namespace emulation {

template <class T>
T exchange_value(unsigned mask, T value, unsigned source, SourceLocation where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              SourceLocation where = SourceLocation::current()) {
  const unsigned lane = emulation::lane(), w = static_cast<unsigned>(width);
  return emulation::exchange_value(mask, value, lane / w * w + static_cast<unsigned>(source) % w, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  SourceLocation where = SourceLocation::current()) {
  const unsigned lane = emulation::lane(), w = static_cast<unsigned>(width);
  const unsigned source = lane ^ static_cast<unsigned>(bits);
  return emulation::exchange_value(mask, value, source / w > lane / w ? lane : source, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   SourceLocation where = SourceLocation::current()) {
  const unsigned lane = emulation::lane(), w = static_cast<unsigned>(width);
  return emulation::exchange_value(mask, value, lane % w + delta < w ? lane + delta : lane, where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 SourceLocation where = SourceLocation::current()) {
  const unsigned lane = emulation::lane(), w = static_cast<unsigned>(width);
  return emulation::exchange_value(mask, value, lane % w >= delta ? lane - delta : lane, where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              SourceLocation where = SourceLocation::current()) {
  const std::uint64_t* values = emulation::gather(mask, predicate != 0 ? 1 : 0, where);
  unsigned result = 0;
  for (unsigned i = 0; i < 32; ++i)
    if ((mask >> i & 1U) != 0 && values[i] != 0) result |= 1U << i;
  return result;
}
inline int __any_sync(unsigned mask, int predicate, SourceLocation where = SourceLocation::current()) {
  return __ballot_sync(mask, predicate, where) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, SourceLocation where = SourceLocation::current()) {
  return __ballot_sync(mask, predicate, where) == mask ? 1 : 0;
}

namespace emulation {

/// Puts f(what is at `at`) there and returns what was.
template <class T, class F>
T change(T* at, F f) {
  const std::atomic_ref<T> shared(*at);
  T old = shared.load(std::memory_order_relaxed);
  while (!shared.compare_exchange_weak(old, f(old), std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace emulation

// As on a GPU they order nothing but themselves.
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return emulation::change(at, [&](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return emulation::change(at, [&](T old) { return value > old ? value : old; });
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return emulation::change(at, [&](T old) { return value < old ? value : old; });
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return emulation::change(at, [&](T old) { return old == expected ? value : old; });
}

}  // namespace ingot::kernels::cuda
// NOLINTEND(readability-identifier-naming)
