#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/rows/norm_rope.h"
#include "ingot/kernels/rope.h"

namespace ingot::kernels::cuda {
namespace {

/// What a layer of the grid along y takes.
template <class T>
struct NormRopeOperand {
  Heads<const T> x;
  Heads<T> y;
  const T* weight;
  float* rstd;  // or null
  HeadOrder order;
};

template <class T>
struct NormRope {
  TokenAngles angles;
  HeadPairs pairs;
  std::int64_t size;
  SumOrder sum_order;
  float eps, weight_offset;
  NormRopeOperand<T> operands[2];
};

/// Two heads of two vectors are under way in a thread, or one of four.
template <class Config>
inline constexpr int kHeadsAtOnce = Config::kVectors == 2 ? 2 : 1;

/// Blocks of a multiprocessor, which leave a thread 80 registers, or 128.
template <class Config>
inline constexpr int kForwardBlocks = (Config::kVectors == 2 ? 768 : 512) / Config::ThreadGroup::kThreads;

template <class Config, class T = typename Config::T>
__global__ __launch_bounds__(
    Config::ThreadGroup::kThreads,
    kForwardBlocks<Config>) void norm_rope_vectors_kernel(const __grid_constant__ NormRope<T> args) {
  using ThreadGroup = typename Config::ThreadGroup;
  constexpr int kAtOnce = kHeadsAtOnce<Config>, kSize = Config::kStep;
  const NormRopeOperand<T>& of = args.operands[blockIdx.y];
  RowVectors<Config> w;
  w.load(of.weight, 0);
  for (std::int64_t unit = ThreadGroup::first_row(); unit - ThreadGroup::number() < of.order.units();
       unit += ThreadGroup::row_step()) {
    const HeadPosition at(of.order, unit);
    RowVectors<Config> x[kAtOnce];
    const auto load = [&](int first) {
      INGOT_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const int head = first + j * at.groups;
        x[j].fetch(of.x.at(at.b, at.s, head), at.has(head) ? kSize : 0, 0);
      }
    };
    load(at.first);  // on their way while the position and its angles are looked up
    HeadAngles<Config> angles;
    angles.load(args.angles, at, false);
    for (int first = at.first; true;) {
      INGOT_UNROLL
      for (int j = 0; j < kAtOnce; ++j) {
        const int head = first + j * at.groups;
        const bool live = at.has(head);
        const float squares =
            head_sum<Config>([&](int p, int v, float& sum) { sum += x[j].get(p, v) * x[j].get(p, v); });
        const float r = 1.0F / sqrtf(squares / static_cast<float>(kSize) + args.eps);
        x[j].keep();
        w.keep();
        if (of.rstd != nullptr && live && ThreadGroup::lane() == 0) of.rstd[at.row(head)] = r;
        x[j].fill([&](int p, int v) { return x[j].get(p, v) * r * (args.weight_offset + w.get(p, v)); });
        angles.rotate(x[j]);
        x[j].write(of.y.at(at.b, at.s, head), live ? kSize : 0, 0);
      }
      first += kAtOnce * at.groups;
      if (first - at.first >= at.heads) break;  // in the same round for all thread groups
      load(first);
    }
  }
}

// One warp per head, for any sizes and strides.
template <class T>
__global__ void norm_rope_kernel(const __grid_constant__ NormRope<T> args) {
  const NormRopeOperand<T>& of = args.operands[blockIdx.y];
  const std::int64_t rows = of.order.batch_tokens * of.order.heads,
                     warps = std::int64_t{gridDim.x} * (blockDim.x / kWarp);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  for (std::int64_t row = std::int64_t{blockIdx.x} * (blockDim.x / kWarp) + threadIdx.x / kWarp; row < rows;
       row += warps) {
    const std::int64_t token = row / of.order.heads, h = row % of.order.heads, b = token / of.order.tokens,
                       s = token % of.order.tokens;
    const T* x = of.x.at(b, s, h);
    T* y = of.y.at(b, s, h);
    const float squares = ordered_sum(args.sum_order, args.size, [&](std::int64_t i, float& sum) {
      sum += to_float(x[i]) * to_float(x[i]);
    });
    const float r = 1.0F / sqrtf(squares / static_cast<float>(args.size) + args.eps);
    if (of.rstd != nullptr && lane == 0) of.rstd[row] = r;
    const auto normalized = [&](std::int64_t i) {
      return from_float<T>(to_float(x[i]) * r * (args.weight_offset + to_float(of.weight[i])));
    };
    const TokenAngles& angles = args.angles;
    const std::int64_t pairs = h < angles.rotated_heads ? angles.half : 0;
    const std::int64_t position = pairs > 0 ? angles.position(b, s) : 0;
    for (std::int64_t k = lane; k < pairs; k += kWarp) {
      const std::int64_t first = args.pairs.first(k), second = args.pairs.second(k);
      float cos[1], sin[1];
      angles.load<1>(position, k, false, cos, sin);
      const RotatedPair rotated =
          rotate_pair(to_float(normalized(first)), to_float(normalized(second)), cos[0], sin[0]);
      y[first] = from_float<T>(rotated.first);
      y[second] = from_float<T>(rotated.second);
    }
    for (std::int64_t k = 2 * pairs + lane; k < args.size; k += kWarp) y[k] = normalized(k);
  }
}

template <class T>
NormRopeOperand<T> operand_of(const RmsNormRopeArgs& args) {
  return {.x = heads_of<const T>(args.x),
          .y = heads_of<T>(args.y),
          .weight = args.weight.as<T>(),
          .rstd = args.rstd.as<float>(),
          .order = HeadOrder(args.x)};
}

template <class T>
void forward(const RmsNormRopeArgs& args, Stream stream) {
  const LaunchSite site{"rms_norm_rope", stream, args.x};
  const unsigned operands = args.also_x ? 2 : 1;
  const std::int64_t heads = std::max(args.x.dim(2), args.also_x ? args.also_x.dim(2) : 0),
                     size = args.x.dim(3);
  NormRope<T> kernel_args{.angles = token_angles(args.angles),
                          .pairs = {args.angles.cos.dim(1), args.angles.interleaved},
                          .size = size,
                          .sum_order = sum_order<T>(size, false),
                          .eps = args.eps,
                          .weight_offset = args.weight_offset,
                          .operands = {operand_of<T>(args)}};
  if (args.also_x) kernel_args.operands[1] = operand_of<T>(args.also());
  const auto in_vectors = [&]<class Config>() {
    const std::int64_t units = std::max(kernel_args.operands[0].order.units(),
                                        args.also_x ? kernel_args.operands[1].order.units() : 0);
    Size3 grid = row_grid<Config>(stream.device, units);
    grid.y = operands;
    launch(site, norm_rope_vectors_kernel<Config>, grid, kRowBlock<Config>, 0, kernel_args);
  };
  if (rotate_in_vectors<T>(args.x, args.angles, heads, {args.weight, args.also_weight},
                           {args.x, args.y, args.also_x, args.also_y}) &&
      dispatch_head_config<T>(size, in_vectors))
    return;
  const std::int64_t rows = args.x.dim(0) * args.x.dim(1) * heads;
  launch(site, norm_rope_kernel<T>, Size3{grid_for(stream.device, rows, 8, 32), operands}, Size3{256}, 0,
         kernel_args);
}

void run(const RmsNormRopeArgs& args, Stream stream) {
  if (args.x.numel() == 0) return;
  dispatch_device_float(args.x.dtype, "rms_norm_rope", [&]<class T>() { forward<T>(args, stream); });
}

}  // namespace

void register_norm_rope() {
  rms_norm_rope.add(DeviceType::cuda,
                    {"cuda", ImplKind::cuda,
                     [](const RmsNormRopeArgs& args) { return is_device_float(args.x.dtype); }, run});
}

}  // namespace ingot::kernels::cuda
