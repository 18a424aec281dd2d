#include "ingot/kernels/cuda/attention/tensor_attention.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

/// Fragments of 16 rows to a warp: with two, what is read of keys and values serves twice as many MMA
/// instructions.
template <int width>
constexpr int kTall = width <= 128 ? 2 : 1;
template <int width>
constexpr int kRows = kAttentionThreads / kWarp * 16 * kTall<width>;
/// Keys to a step.
template <int width>
constexpr int kStep = width <= 128 ? 64 : 32;

/// A thread's two rows of the running softmax. `total` is of the thread's own columns.
struct RunningSoftmax {
  float top[2] = {-INFINITY, -INFINITY}, total[2] = {};

  /// Makes weights of the tile's scores, and brings what was summed so far to the same top. `factor`,
  /// above 0, makes powers of two of the scores.
  template <int wide, int columns>
  __device__ __forceinline__ void add(SumFragment (&scores)[wide], SumFragment (&sums)[columns],
                                      float factor) {
    INGOT_UNROLL
    for (int r = 0; r < 2; ++r) {
      float higher = top[r];
      INGOT_UNROLL
      for (int j = 0; j < wide; ++j)
        higher = fmaxf(higher, fmaxf(scores[j].values[2 * r], scores[j].values[2 * r + 1]));
      higher = fmaxf(higher, __shfl_xor_sync(kAllLanes, higher, 1));
      higher = fmaxf(higher, __shfl_xor_sync(kAllLanes, higher, 2));
      const float base =
          higher == -INFINITY ? 0.0F : __fmul_rn(higher, factor);  // nothing seen: weights are 0
      // Rounded as the base is, not contracted: exactly 1 where the top stays, however many steps there are.
      const float rescale = fast_exp2(__fmul_rn(top[r], factor) - base);
      top[r] = higher;
      total[r] *= rescale;
      INGOT_UNROLL
      for (int j = 0; j < wide; ++j) {
        INGOT_UNROLL
        for (int e = 2 * r; e < 2 * r + 2; ++e) {
          scores[j].values[e] = fast_exp2(fmaf(scores[j].values[e], factor, -base));
          total[r] += scores[j].values[e];
        }
      }
      INGOT_UNROLL
      for (int c = 0; c < columns; ++c) {
        sums[c].values[2 * r] *= rescale;
        sums[c].values[2 * r + 1] *= rescale;
      }
    }
  }

  /// Divides the sums by the totals, and returns the rows' log sums: 0 and -infinity where nothing was seen.
  template <int columns>
  __device__ __forceinline__ Vector<float, 2> finish(SumFragment (&sums)[columns], float factor) {
    Vector<float, 2> lse{};
    INGOT_UNROLL
    for (int r = 0; r < 2; ++r) {
      total[r] += __shfl_xor_sync(kAllLanes, total[r], 1);
      total[r] += __shfl_xor_sync(kAllLanes, total[r], 2);
      const float share = total[r] > 0.0F ? 1.0F / total[r] : 0.0F;
      INGOT_UNROLL
      for (int c = 0; c < columns; ++c) {
        sums[c].values[2 * r] *= share;
        sums[c].values[2 * r + 1] *= share;
      }
      lse.values[r] = total[r] > 0.0F ? top[r] * factor / kLog2E + logf(total[r]) : -INFINITY;
    }
    return lse;
  }
};

/// q·k to scores, in powers of two.
template <int wide>
__device__ __forceinline__ void make_powers(SumFragment (&scores)[wide], float scale, float softcap) {
  INGOT_UNROLL
  for (SumFragment& fragment : scores) {
    INGOT_UNROLL
    for (float& value : fragment.values) {
      float slope = 0;
      value = kLog2E * score_of(value, scale, softcap, slope);
    }
  }
}

template <class T, int width, bool linear>
__global__ void __launch_bounds__(kAttentionThreads)
    tensor_attention_kernel(const __grid_constant__ AttentionForward<T> args) {
  constexpr int tall = kTall<width>, rows = kRows<width>, step = kStep<width>, tile = tile_size<width>(step);
  INGOT_DYNAMIC_SHARED(T, queries);
  INGOT_SHARED_ARRAY(StoredRange, ranges, rows);
  T *const keys = queries + tile_size<width>(rows), *const values = keys + 2 * tile;
  const int tiles = static_cast<int>(tiles_of(args.mask.queries, rows));
  const BlockPosition position(tiles, args.heads);
  // The last queries see the most keys: they begin first.
  const int i0 = (tiles - 1 - position.tile) * rows, h = position.h, b = position.b,
            kv = h / static_cast<int>(args.group);
  const FragmentPosition at;
  const int row = static_cast<int>(threadIdx.x) / kWarp * 16 * tall;
  const BlockRange seen = store_ranges<rows>(ranges, args.mask, b, i0);
  const int begin = seen.any.lo / step * step;
  const T *const key_rows = args.k.head(b, kv), *const value_rows = args.v.head(b, kv);
  const auto copy_keys = [&](int j0, int half) {
    copy_rows<step, width>(keys + half * tile, key_rows, args.k.strides[1], j0, seen.any, args.d);
  };
  copy_rows<rows, width>(queries, args.q.head(b, h), args.q.strides[1], i0,
                         {0, static_cast<int>(args.mask.queries)}, args.d);
  if (begin < seen.any.hi) copy_keys(begin, 0);
  commit_copies();

  const float factor = linear ? args.scale * kLog2E : 1.0F;
  RunningSoftmax softmax[tall];
  SumFragment sums[tall][width / 8];
  int half = 0;
  for (int j0 = begin; j0 < seen.any.hi; j0 += step, half ^= 1) {
    wait_copies<0>();
    __syncthreads();  // the keys have arrived, and everybody is through with the step before
    copy_rows<step, width>(values, value_rows, args.v.strides[1], j0, seen.any, args.dv);
    commit_copies();
    if (j0 + step < seen.any.hi) copy_keys(j0 + step, half ^ 1);
    commit_copies();
    SumFragment scores[tall][step / 8];
    add_mma_of_rows<T, width>(scores, queries, row, keys + half * tile);
    const bool border = !seen.all.covers(j0, step);  // the same for the whole block
    INGOT_UNROLL
    for (int i = 0; i < tall; ++i) {
      if constexpr (!linear) make_powers(scores[i], args.scale, args.softcap);
      if (border) hide_unseen(scores[i], ranges + row + 16 * i, j0, -INFINITY);
      softmax[i].add(scores[i], sums[i], factor);
    }
    wait_copies<1>();
    __syncthreads();  // the values have arrived
    add_weighted_rows<T>(sums, scores, values);
  }
  wait_copies<0>();  // where there was no step
  INGOT_UNROLL
  for (int i = 0; i < tall; ++i) {
    const Vector<float, 2> lse = softmax[i].finish(sums[i], factor);
    const int first = i0 + row + 16 * i;
    store_rows(args.out.head(b, h), args.out.strides[1], first, args.mask.queries, args.dv, sums[i], false);
    INGOT_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int query = first + at.row + 8 * r;
      if (args.lse != nullptr && at.column == 0 && query < args.mask.queries)
        args.lse[(std::int64_t{b} * args.heads + h) * args.mask.queries + query] = lse.values[r];
    }
  }
}

void run_tensor_attention(const AttentionArgs& args, Stream stream) {
  if (args.out.numel() == 0) return;
  dispatch_tensor_attention(
      args.q, args.v, is_linear(args.scale, args.softcap), [&]<class T, int width, bool linear>() {
        constexpr std::size_t kMemory = attention_memory<T, width, kRows<width>, kStep<width>>();
        launch({"attention", stream, args.q}, tensor_attention_kernel<T, width, linear>,
               grid_of_tiles(args.q, args.q.dim(2), kRows<width>), Size3{kAttentionThreads}, kMemory,
               AttentionForward<T>(args));
      });
}

}  // namespace

void register_tensor_attention() {
  attention.add(DeviceType::cuda,
                {"tensor_cores", ImplKind::cuda,
                 [](const AttentionArgs& args) {
                   return !args.caches && suits_tensor_cores({args.q, args.k, args.v, args.out});
                 },
                 run_tensor_attention});
  attention_backward.add(
      DeviceType::cuda,
      {"tensor_cores", ImplKind::cuda,
       [](const AttentionBackwardArgs& args) {
         return has_delta(args) &&
                suits_tensor_cores({args.q, args.k, args.v, args.out, args.dout, args.dq, args.dk, args.dv});
       },
       run_tensor_attention_backward});
}

}  // namespace ingot::kernels::cuda
