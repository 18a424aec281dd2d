#pragma once

#include "ingot/kernels/kernel.h"

// Rows that are sorted into groups, each with a matrix of its own: what a mixture of experts runs. Group g
// has the rows [offsets[g], offsets[g + 1]); offsets: i64 [groups + 1], contiguous, ascending from 0 to the
// number of rows. It lies on the device, so that nobody waits to know how many rows there are.
namespace ingot::kernels {

/// c[r] = a[r]·b[g], or += with `accumulate`, for the rows r of each group. a: [rows, k], c: [rows, n], both
/// with adjacent last axes; b: [groups, k, n], any strides; one floating dtype.
struct GroupedGemmArgs {
  View a, b, c, offsets;
  bool accumulate = false;
};
inline Kernel<GroupedGemmArgs> grouped_gemm("grouped_gemm");
inline double flops(const GroupedGemmArgs& args) {
  return 2 * static_cast<double>(args.c.numel()) * static_cast<double>(args.a.dim(-1));
}

/// c[g] = Σ a[r]ᵀ·b[r], or += with `accumulate`, over the rows r of each group; zeros where it has none. a:
/// [rows, m], b: [rows, n], both with adjacent last axes; c: [groups, m, n], contiguous; one floating dtype.
struct GroupedOuterArgs {
  View a, b, c, offsets;
  bool accumulate = false;
};
inline Kernel<GroupedOuterArgs> grouped_outer("grouped_outer");
inline double flops(const GroupedOuterArgs& args) {
  return 2 * static_cast<double>(args.a.numel()) * static_cast<double>(args.b.dim(-1));
}

/// Sorts (token, choice) pairs by expert, those of one expert in their own order. experts: i64 [tokens,
/// choices], each below the number of experts; offsets: i64 [experts + 1], where each expert's pairs begin;
/// tokens and sorted: i64 [pairs], the token and the expert of each sorted pair; positions: i64 [pairs],
/// where each pair went. All contiguous.
struct RouteArgs {
  View experts, offsets, tokens, sorted, positions;
};
inline Kernel<RouteArgs> route("route");

}  // namespace ingot::kernels
