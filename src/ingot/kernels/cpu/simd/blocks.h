#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ingot/kernels/cpu/simd/convert.h"
#include "ingot/kernels/cpu/strided.h"

namespace ingot::kernels::cpu {

enum class Access : std::uint8_t { read, write, update };

/// One operand of an element-wise kernel: f32, bf16 or f16, any strides; absent operands give null pointers.
struct Operand {
  View view;
  Access access = Access::read;
};

inline Operand reads(const View& view) { return {view, Access::read}; }
/// A destination that the block body overwrites, or adds to with `accumulate`.
inline Operand writes(const View& view, bool accumulate) {
  return {view, accumulate ? Access::update : Access::write};
}

/// Cuts the operands (of one shape) into blocks and calls body(pointers, n) with n contiguous floats of each.
/// Contiguous f32 is handed over in place; the rest passes through buffers in L1, converted. So that a kernel
/// needs one loop, over contiguous f32. Parallel above `grain` elements.
template <std::size_t N, class Body>
void for_each_block(const std::array<Operand, N>& operands, std::int64_t grain, Body&& body) {
  constexpr std::int64_t kBlock = 1024;  // 4 KiB per operand: five of them leave half of a 48 KiB L1
  std::array<View, N> views;
  for (std::size_t v = 0; v < N; ++v) views[v] = operands[v].view;
  parallel_runs<N>(views, grain, [&](const auto& offsets, std::int64_t n, const auto& strides) {
    std::array<bool, N> direct;
    bool all_direct = true;
    for (std::size_t v = 0; v < N; ++v) {
      direct[v] = !views[v] || (views[v].dtype == DType::f32 && (strides[v] == 1 || n == 1));
      all_direct = all_direct && direct[v];
    }
    std::array<float*, N> pointers{};
    if (all_direct) {
      for (std::size_t v = 0; v < N; ++v) {
        if (views[v]) pointers[v] = views[v].template as<float>() + offsets[v];
      }
      body(pointers, n);
      return;
    }
    alignas(64) std::array<std::array<float, kBlock>, N> buffers;
    for (std::int64_t start = 0; start < n; start += kBlock) {
      const std::int64_t size = std::min(kBlock, n - start);
      std::array<void*, N> memory{};
      for (std::size_t v = 0; v < N; ++v) {
        if (!views[v]) continue;
        const std::int64_t element = offsets[v] + start * strides[v];
        memory[v] =
            views[v].template as<char>() + element * static_cast<std::int64_t>(byte_size(views[v].dtype));
        pointers[v] = direct[v] ? static_cast<float*>(memory[v]) : buffers[v].data();
        const bool repeated = strides[v] == 0 && start > 0;  // the same value fills the block already
        if (!direct[v] && !repeated && operands[v].access != Access::write) {
          load_floats(memory[v], views[v].dtype, strides[v], size, buffers[v].data());
        }
      }
      body(pointers, size);
      for (std::size_t v = 0; v < N; ++v) {
        if (memory[v] != nullptr && !direct[v] && operands[v].access != Access::read) {
          store_floats(buffers[v].data(), size, memory[v], views[v].dtype, strides[v]);
        }
      }
    }
  });
}

/// Whether for_each_block can run these: the present ones are f32, bf16 or f16.
template <class... Views>
bool are_simd_floats(const Views&... views) {
  return ((!views || is_simd_float(views.dtype)) && ...);
}

}  // namespace ingot::kernels::cpu
