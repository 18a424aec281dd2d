#pragma once

#include <algorithm>

#include "ingot/kernels/cuda/device/tensor_core.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/quant/packed_codes.h"

// Matmuls of packed weights with few rows of x: a block computes the 16 columns of y that belong to a panel.
// Reading the panel is most of its work. As a panel is one run of bytes in any format, it is copied to shared
// memory as it lies, stage by stage, with several stages under way while one is multiplied.
namespace ingot::kernels::cuda {

/// Of the weight, for each block: a multiprocessor has as much under way even where there is one block for
/// it.
inline constexpr int kBytesUnderWay = 32 * 1024;
inline constexpr int kMostShared = 96 * 1024;  ///< what every GPU from 8.0 on gives a block

struct PackedMatmulArgs {
  const void* x;
  const std::uint8_t* weight;
  const float* bias;
  float* y;
  std::int64_t m, n, k, x_stride, y_stride, panel_bytes;  ///< x_stride in what the kernel takes x for
  std::int64_t count;                                     ///< of blocks, or steps, in a panel

  constexpr std::int64_t panels() const { return (n + kPanel - 1) / kPanel; }
};

/// The panel and the rows of x that a block works on. All are in the grid's x, since y ends at 65535; blocks
/// of the same panel are neighbours, so that one of them reads it from memory for all.
struct MatmulPosition {
  std::int64_t panel, row0;
  int rows;

  __device__ __forceinline__ MatmulPosition(const PackedMatmulArgs& args, int most_rows) {
    const auto groups = static_cast<unsigned>((args.m + most_rows - 1) / most_rows);
    panel = blockIdx.x / groups;
    row0 = std::int64_t{blockIdx.x - static_cast<unsigned>(panel) * groups} * most_rows;
    rows = static_cast<int>(args.m - row0 < most_rows ? args.m - row0 : most_rows);
  }
};
inline unsigned matmul_grid(const PackedMatmulArgs& args, int most_rows) {
  return static_cast<unsigned>(args.panels() * ((args.m + most_rows - 1) / most_rows));
}

/// Calls f.template operator()<rows>() with the first of the `choices` that m rows fit in, else the last.
template <int first, int... choices, class F>
void dispatch_rows(std::int64_t m, F&& f) {
  if constexpr (sizeof...(choices) > 0)
    if (m > first) return dispatch_rows<choices...>(m, f);
  f.template operator()<first>();
}

/// What a block keeps in shared memory of a stage: its part of the panel and, behind that, of x. Stages take
/// turns with kCount positions, beside which the kernel needs other_bytes.
template <int weight_bytes, int x_bytes, int other_bytes>
struct Stages {
  static constexpr int kBytes = weight_bytes + x_bytes;
  static constexpr int kWanted = std::min(8, (kBytesUnderWay + weight_bytes - 1) / weight_bytes + 1);
  static constexpr int kCount = std::min(kWanted, (kMostShared - other_bytes) / kBytes);
  static_assert(kCount >= 3 && kBytes % 16 == 0 && other_bytes % 16 == 0);

  /// Where stage `at` of the panel is, and where its part of x.
  __device__ static std::uint8_t* weight(std::uint8_t* shared, int at) {
    return shared + other_bytes + at % kCount * kBytes;
  }
  __device__ static std::uint8_t* x(std::uint8_t* shared, int at) {
    return weight(shared, at) + weight_bytes;
  }
  /// Of dynamic shared memory, for panels of so many stages.
  static std::size_t shared_bytes(int count) {
    return static_cast<std::size_t>(other_bytes + std::min(kCount, count) * kBytes);
  }

  /// Calls copy(i), which starts copies of stage i, well before work(i); work(count) comes last, without a
  /// stage. Before each is a barrier, so work(i) may read what others wrote in work(i - 1), and write what
  /// they read then.
  template <class Copy, class Work>
  __device__ static __forceinline__ void run(int count, Copy copy, Work work) {
    for (int i = 0; i < kCount - 1; ++i) {
      if (i < count) copy(i);
      commit_copies();
    }
    for (int i = 0; i <= count; ++i) {
      wait_copies<kCount - 2>();
      __syncthreads();
      if (i + kCount - 1 < count)
        copy(i + kCount - 1);  // to the position of stage i - 1, which all have left
      commit_copies();
      work(i);
    }
  }
};

// Two warps of a block do nothing but copy: the fewer instructions that costs, the more are left for
// matmuls. What one of their threads copies: next(to) starts the copies of the next stage, whose part in
// shared memory begins at `to`. A `copier` is the thread's number among them.
inline constexpr int kCopyThreads = 64;

/// Of a panel, stage_bytes at a time; both sizes are multiples of 16.
template <int stage_bytes>
class PanelCopies {
 public:
  __device__ __forceinline__ PanelCopies(const std::uint8_t* panel, std::int64_t bytes, int copier)
      : from_(panel + copier * 16), offset_(copier * 16), left_(static_cast<int>(bytes) - copier * 16) {}

  __device__ __forceinline__ void next(std::uint8_t* to) {
    const int end = left_ < stage_bytes - offset_ ? left_ : stage_bytes - offset_;
    INGOT_UNROLL
    for (int at = 0; at < stage_bytes; at += kCopyThreads * 16)
      if (at < end) copy_async(to + offset_ + at, from_ + at, true);
    from_ += stage_bytes;
    left_ -= stage_bytes;
  }

 private:
  const std::uint8_t* from_;
  int offset_, left_;
};

/// Rows of x in shared memory begin this much further apart than they are long, so that the lanes of a warp
/// that read four words of each of eight rows find them in 32 banks.
inline constexpr int kRowGap = 16;

/// Of `there` rows that begin `stride` bytes apart, row_bytes of each at a time; in shared memory there is
/// room for `rows`, with gaps. All sizes are multiples of 16.
template <int rows, int row_bytes>
class RowCopies {
 public:
  __device__ __forceinline__ RowCopies(const std::uint8_t* x, std::int64_t stride, int there, int bytes,
                                       int copier)
      : stride_(stride) {
    const int row = copier / kCopies, at = copier % kCopies * 16;
    offset_ = row * kPitch + at;
    from_ = x + row * stride + at;
    there_ = there - row;
    left_ = bytes - at;
  }
  __device__ __forceinline__ void next(std::uint8_t* to) {
    INGOT_UNROLL
    for (int row = 0; row < rows; row += kRows)
      if (row < there_ && left_ > 0) copy_async(to + offset_ + row * kPitch, from_ + row * stride_, true);
    from_ += row_bytes;
    left_ -= row_bytes;
  }

 private:
  static constexpr int kPitch = row_bytes + kRowGap;
  static constexpr int kCopies = row_bytes / 16, kRows = kCopyThreads / kCopies;  // of a row; at once
  static_assert(kCopyThreads % kCopies == 0);
  const std::uint8_t* from_;
  std::int64_t stride_;
  int offset_, there_, left_;
};

// The threads of a block that multiply codes; behind them those that copy, and then those that add up
// results, one for each: what the first found in a stage, in the order that the contract fixes, while these
// are at the next stage.
inline constexpr int kDotThreads = 256;
template <int rows>
inline constexpr int kMatmulThreads = kDotThreads + kCopyThreads + std::max(kWarp, kPanel* rows);

/// What a thread does: multiply, copy as which of the copiers, or add up one result, of which row of the
/// panel and of x.
struct Role {
  int copier, row, r;
  bool multiplies, copies, adds;

  __device__ __forceinline__ explicit Role(int rows) {
    const int me = static_cast<int>(threadIdx.x), adder = me - kDotThreads - kCopyThreads;
    copier = me - kDotThreads;
    row = adder & (kPanel - 1);
    r = adder / kPanel;
    multiplies = me < kDotThreads;
    copies = !multiplies && adder < 0;
    adds = adder >= 0 && r < rows;
  }
};

/// Calls add(i) for i < count, `most` times at most. Where it is known, as for nearly all stages, loads of
/// several come first.
template <int most, class Add>
__device__ __forceinline__ void add_up(int count, Add add) {
  if (count >= most) {
    INGOT_UNROLL
    for (int i = 0; i < most; ++i) add(i);
  } else {
    for (int i = 0; i < count; ++i) add(i);
  }
}

template <class Args>
PackedMatmulArgs packed_matmul_args(const Args& args) {
  return {.x = args.x.data,
          .weight = args.weight.template as<std::uint8_t>(),
          .bias = args.bias.template as<float>(),
          .y = args.y.template as<float>(),
          .m = args.y.dim(0),
          .n = args.y.dim(-1),
          .k = args.x.dim(-1),
          .x_stride = args.x.stride(0),
          .y_stride = args.y.stride(0),
          .panel_bytes = args.weight.dim(-1),
          .count = 0};
}

/// Launches the kernel for panels of made.count blocks or steps, per_stage of which are a stage.
template <class Stage, class... Parameters, class... More>
void launch_matmul(const LaunchSite& site, void (*kernel)(Parameters...), const PackedMatmulArgs& made,
                   int rows, int threads, int per_stage, const More&... more) {
  const auto stages = static_cast<int>((made.count + per_stage - 1) / per_stage);
  launch(site, kernel, Size3{matmul_grid(made, rows)}, Size3{static_cast<unsigned>(threads)},
         Stage::shared_bytes(stages), made, more...);
}

/// Writes a result, with its bias added.
__device__ __forceinline__ void store_result(const PackedMatmulArgs& args, std::int64_t row,
                                             std::int64_t column, float y) {
  if (column >= args.n) return;
  args.y[row * args.y_stride + column] = args.bias == nullptr ? y : y + args.bias[column];
}

}  // namespace ingot::kernels::cuda
