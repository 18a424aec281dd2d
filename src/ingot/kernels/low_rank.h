#pragma once

#include <cstdint>
#include <span>

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// An adapter's share of a low-rank launch.
struct LowRankUpdate {
  View a;                  ///< [rank, in], adjacent columns
  View b;                  ///< [out, rank], adjacent rows or columns; a's dtype
  View y;                  ///< [count, out], the rows that it adds to, with adjacent columns
  std::int64_t begin = 0;  ///< the row of x that y's first belongs to
  float scale = 1;

  std::int64_t rank() const { return a.dim(0); }
  std::int64_t inner() const { return y.dim(0) * rank(); }  ///< floats of scratch
};

/// y[i] += scale · (x[begin + i]·aᵀ)·bᵀ for every row of each update: adapters of many texts in one launch
/// (Punica, Chen et al. 2023; S-LoRA, Sheng et al. 2023). x: [rows, in], adjacent columns; y has its dtype,
/// and a and b have it, too, or are f16, bf16 or i8 beside f32. No two updates write one element. inner:
/// scratch in the accumulator dtype, with the inner() of all updates. On one device a row has the same bits
/// whatever other rows and updates there are.
struct LowRankArgs {
  View x;
  std::span<const LowRankUpdate> updates;
  View inner;
};
inline Kernel<LowRankArgs> low_rank("low_rank");
inline double flops(const LowRankArgs& args) {
  double sum = 0;
  for (const LowRankUpdate& update : args.updates)
    sum += 2 * static_cast<double>(update.inner()) * static_cast<double>(update.a.dim(1) + update.b.dim(0));
  return sum;
}

}  // namespace ingot::kernels
