#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// Indices are i64 or i32 and in range: ops check first, with find_outside. Only embedding is not checked on a
// device that works beside the host, which would have to wait.

/// position[0] = the position (row-major) of the first index outside [0, bound), or -1. indices: any strides;
/// position: [1], i64.
struct FindOutsideArgs {
  View indices, position;
  std::int64_t bound = 0;
};
inline Kernel<FindOutsideArgs> find_outside("find_outside");

/// y[i] = weight[ids[i]]. weight: [rows, d], y: [n, d], contiguous, of any one dtype; ids: [n], contiguous.
/// On a GPU an id outside of the rows gives a row of bytes 0xff, which is NaN in every floating dtype.
struct EmbeddingArgs {
  View weight, ids, y;
};
inline Kernel<EmbeddingArgs> embedding("embedding");

/// dweight[ids[i]] += dy[i] for i in order; first set to 0 without `accumulate`. Shapes as above, floating.
/// Rows that several ids name are summed in dy's order whatever the thread count; half precision in f32. On a
/// GPU ids outside of the rows are left out. scratch: embedding_scratch(ids) numbers of i32; absent where
/// that is 0.
struct EmbeddingBackwardArgs {
  View dy, ids, dweight;
  View scratch{};
  bool accumulate = false;
};
/// A GPU sorts the ids: their positions twice, and counts of digits for each tile of them.
std::int64_t embedding_scratch(const View& ids);
inline constexpr int kEmbeddingTile = 2048, kEmbeddingDigits = 256;
inline Kernel<EmbeddingBackwardArgs> embedding_backward("embedding_backward");

/// y[..., i, ...] = x[..., index[..., i, ...], ...] on `axis`. index and y have one shape, with x's sizes on
/// the other axes. Any strides, any one dtype.
struct GatherArgs {
  View x, index, y;
  int axis = 0;
  bool accumulate = false;
};
inline Kernel<GatherArgs> gather("gather");

/// y[..., index[..., i, ...], ...] += x[..., i, ...] on `axis`, in order of i. index and x have one shape; x
/// and y any one dtype. On the CPU half precision is summed in f32 and rounded once.
struct ScatterAddArgs {
  View x, index, y;
  int axis = 0;
};
inline Kernel<ScatterAddArgs> scatter_add("scatter_add");

}  // namespace ingot::kernels
