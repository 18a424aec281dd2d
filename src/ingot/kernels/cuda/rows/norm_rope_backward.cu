#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/rows/column_sums.h"
#include "ingot/kernels/cuda/rows/norm_rope.h"
#include "ingot/kernels/rope.h"

namespace ingot::kernels::cuda {
namespace {

template <class T>
struct NormRopeBackward {
  TokenAngles angles;
  HeadPairs pairs;
  Heads<const T> x, dy;
  Heads<T> dx;
  const T* weight;
  const float* rstd;
  float* parts;  // [gridDim.x, D], or null
  HeadOrder order;
  std::int64_t size;
  SumOrder sum_order;
  float weight_offset;
};

/// Blocks of a multiprocessor: 512 threads with 128 registers each. Where a thread has four vectors of a
/// head, and sums for as many columns, 384 with 168, or 256 with 255 for vectors of eight elements.
template <class Config>
inline constexpr int kBackwardBlocks =
    (Config::kVectors == 2 ? 512 : (Config::kVec == 4 ? 384 : 256)) / Config::ThreadGroup::kThreads;

// dy rotated back, then as norm_backward_kernel: with x̂ = x·rstd and g = w·dy, dx = rstd · (g − x̂ ·
// mean(g·x̂)), and dw = Σ dy·x̂ is summed apart by every block.
template <class Config, bool accumulate, class T = typename Config::T>
__global__ __launch_bounds__(
    Config::ThreadGroup::kThreads,
    kBackwardBlocks<
        Config>) void norm_rope_backward_vectors_kernel(const __grid_constant__ NormRopeBackward<T> args) {
  using ThreadGroup = typename Config::ThreadGroup;
  constexpr int kSize = Config::kStep;
  float* const part = args.parts == nullptr ? nullptr : args.parts + std::int64_t{blockIdx.x} * kSize;
  ColumnSums<Config, 1> columns;
  RowVectors<Config> w;
  w.load(args.weight, 0);
  for (std::int64_t unit = ThreadGroup::first_row(); unit - ThreadGroup::number() < args.order.units();
       unit += ThreadGroup::row_step()) {
    const HeadPosition at(args.order, unit);
    HeadAngles<Config> angles;
    angles.load(args.angles, at, true);
    for (int round = 0; round < at.heads; round += at.groups) {
      const int head = at.first + round, n = at.has(head) ? kSize : 0;
      T* const dx_row = args.dx.at(at.b, at.s, head);
      const float rstd = n > 0 ? args.rstd[at.row(head)] : 0.0F;
      RowVectors<Config> x, dy, dx;
      x.fetch(args.x.at(at.b, at.s, head), n, 0);
      dy.fetch(args.dy.at(at.b, at.s, head), n, 0);
      if constexpr (accumulate) dx.fetch(dx_row, args.dx.data == nullptr ? 0 : n, 0);
      angles.rotate(dy);
      const float dot = head_sum<Config>([&](int p, int v, float& sum) {
                          const float g = (args.weight_offset + w.get(p, v)) * dy.get(p, v);
                          sum += g * (x.get(p, v) * rstd);
                        }) /
                        static_cast<float>(kSize);
      x.keep();
      dy.keep();
      if constexpr (accumulate) dx.keep();
      dx.fill([&](int p, int v) {
        const float normalized = x.get(p, v) * rstd, grad = dy.get(p, v);
        columns.add(part, kSize, false, 0, p, v, {grad * normalized});
        const float gradient = rms_gradient(rstd, args.weight_offset + w.get(p, v), grad, normalized, dot);
        return accumulate ? dx.get(p, v) + gradient : gradient;
      });
      if (args.dx.data != nullptr) dx.write(dx_row, n, 0);
    }
  }
  if (part != nullptr) columns.finish(part, kSize);
}

// One warp per head and block, for any sizes and strides.
template <class T>
__global__ void norm_rope_backward_kernel(const __grid_constant__ NormRopeBackward<T> args, bool accumulate) {
  const HeadOrder& order = args.order;
  const std::int64_t rows = order.batch_tokens * order.heads;
  float* const part = args.parts == nullptr ? nullptr : args.parts + blockIdx.x * args.size;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t token = row / order.heads, h = row % order.heads, b = token / order.tokens,
                       s = token % order.tokens;
    const T *x = args.x.at(b, s, h), *dy = args.dy.at(b, s, h);
    const TokenAngles& angles = args.angles;
    const std::int64_t turning = h < angles.rotated_heads ? 2 * angles.half : 0;
    const std::int64_t position = turning > 0 ? angles.position(b, s) : 0;
    const auto rotated_back = [&](std::int64_t i) {
      if (i >= turning) return to_float(dy[i]);
      const std::int64_t pair = args.pairs.of(i);
      float cos[1], sin[1];
      angles.load<1>(position, pair, true, cos, sin);
      const RotatedPair rotated = rotate_pair(to_float(dy[args.pairs.first(pair)]),
                                              to_float(dy[args.pairs.second(pair)]), cos[0], sin[0]);
      return to_float(from_float<T>(i == args.pairs.first(pair) ? rotated.first : rotated.second));
    };
    const auto weight = [&](std::int64_t i) { return args.weight_offset + to_float(args.weight[i]); };
    const float rstd = args.rstd[row];
    const float dot = ordered_sum(args.sum_order, args.size,
                                  [&](std::int64_t i, float& sum) {
                                    const float g = weight(i) * rotated_back(i);
                                    sum += g * (to_float(x[i]) * rstd);
                                  }) /
                      static_cast<float>(args.size);
    for (std::int64_t i = threadIdx.x; i < args.size; i += kWarp) {
      const float normalized = to_float(x[i]) * rstd, grad = rotated_back(i);
      if (part != nullptr) part[i] = row == blockIdx.x ? grad * normalized : part[i] + grad * normalized;
      if (args.dx.data != nullptr)
        store(args.dx.at(b, s, h) + i, rms_gradient(rstd, weight(i), grad, normalized, dot), accumulate);
    }
  }
}

template <class T>
void backward(const RmsNormRopeBackwardArgs& args, Stream stream) {
  const LaunchSite site{"rms_norm_rope_backward", stream, args.x};
  const std::int64_t size = args.x.dim(3), rows = args.x.rows();
  const NormRopeBackward<T> kernel_args{.angles = token_angles(args.angles),
                                        .pairs = {args.angles.cos.dim(1), args.angles.interleaved},
                                        .x = heads_of<const T>(args.x),
                                        .dy = heads_of<const T>(args.dy),
                                        .dx = heads_of<T>(args.dx),
                                        .weight = args.weight.as<T>(),
                                        .rstd = args.rstd.as<float>(),
                                        .parts = args.dweight ? args.partials.as<float>() : nullptr,
                                        .order = HeadOrder(args.x),
                                        .size = size,
                                        .sum_order = sum_order<T>(size, true),
                                        .weight_offset = args.weight_offset};
  // As many blocks as are there at once, and a part for each.
  const auto grid_of = [&](std::int64_t units, int per_block, int at_once) {
    const unsigned held = grid_for(stream.device, units, per_block, at_once);
    return args.dweight ? static_cast<unsigned>(std::min<std::int64_t>(args.partials.dim(0), held)) : held;
  };
  unsigned blocks = 0;
  const auto in_vectors = [&]<class Config>() {
    blocks = grid_of(kernel_args.order.units(), Config::ThreadGroup::kThreadGroups, kBackwardBlocks<Config>);
    const auto kernel = args.accumulate_dx ? norm_rope_backward_vectors_kernel<Config, true>
                                           : norm_rope_backward_vectors_kernel<Config, false>;
    launch(site, kernel, Size3{blocks}, kRowBlock<Config>,
           args.dweight ? static_cast<std::size_t>(size) * sizeof(float) : 0, kernel_args);
  };
  const auto one_by_one = [&] {
    blocks = grid_of(rows, 1, 32);
    launch(site, norm_rope_backward_kernel<T>, Size3{blocks}, Size3{kWarp}, 0, kernel_args,
           args.accumulate_dx);
  };
  const bool whole =
      rotate_in_vectors<T>(args.x, args.angles, args.x.dim(2), {args.weight}, {args.x, args.dy, args.dx});
  if (rows > 0 && !(whole && dispatch_head_config<T>(size, in_vectors))) one_by_one();
  if (args.dweight)
    sum_parts(site, kernel_args.parts, static_cast<int>(blocks), size, size, args.dweight.as<T>(),
              args.accumulate_dweight);
}

void run(const RmsNormRopeBackwardArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "rms_norm_rope_backward",
                        [&]<class T>() { backward<T>(args, stream); });
}

}  // namespace

void register_norm_rope_backward() {
  rms_norm_rope_backward.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda,
       [](const RmsNormRopeBackwardArgs& args) { return is_device_float(args.x.dtype); }, run});
}

}  // namespace ingot::kernels::cuda
