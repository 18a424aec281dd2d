#include <limits>

#include "ingot/kernels/cuda/conv/conv_parts.h"
#include "ingot/kernels/cuda/gemm/mma_gemm.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

// Channels-last convolutions of one group as matmuls on tensor cores. The channels under a tap of the filter
// are contiguous, so they are copied 16 bytes at a time from the image itself.

/// A number in three digits, of which the lower two have a limit, that goes up without divisions.
struct Digits {
  int low, middle, high;

  __device__ __forceinline__ Digits(unsigned value, unsigned lows, unsigned middles) {
    const unsigned above = value / lows, top = above / middles;
    low = static_cast<int>(value - above * lows);
    middle = static_cast<int>(above - top * middles);
    high = static_cast<int>(top);
  }
  __device__ __forceinline__ void add(const Digits& step, int lows, int middles) {
    low += step.low;
    middle += step.middle;
    high += step.high;
    if (low >= lows) low -= lows, ++middle;
    if (middle >= middles) middle -= middles, ++high;
  }
};

/// x under the taps of y's positions.
struct UnderTaps {
  __device__ static const Image& positions(const ConvProblem& p) { return p.y; }
  __device__ static const Image& image(const ConvProblem& p) { return p.x; }
  /// Where a tap falls along an axis (0 the height, 1 the width) whose image has `size`; false: outside.
  __device__ static bool find(const ConvProblem& p, int axis, int position, int tap, int size, int& at) {
    at = position * static_cast<int>(p.stride[axis]) - static_cast<int>(p.padding[axis]) +
         tap * static_cast<int>(p.dilation[axis]);
    return at >= 0 && at < size;
  }
};
/// dy where it was computed from x's positions through a tap.
struct ThroughTaps {
  __device__ static const Image& positions(const ConvProblem& p) { return p.x; }
  __device__ static const Image& image(const ConvProblem& p) { return p.y; }
  __device__ static bool find(const ConvProblem& p, int axis, int position, int tap, int size, int& at) {
    const int from = position + static_cast<int>(p.padding[axis]) - tap * static_cast<int>(p.dilation[axis]);
    const int stride = static_cast<int>(p.stride[axis]);
    at = stride == 1 ? from : from / stride;
    return from >= 0 && at * stride == from && at < size;
  }
};

/// Where the channels under a tap begin in an image of less than 2^31 values; -1: outside.
template <class Walk>
__device__ __forceinline__ int find_channels(const ConvProblem& p, int sample, int row, int column,
                                             int tap_row, int tap_column) {
  const Image& image = Walk::image(p);
  const int height = static_cast<int>(image.h), width = static_cast<int>(image.w);
  int y = 0, x = 0;
  const bool inside =
      Walk::find(p, 0, row, tap_row, height, y) && Walk::find(p, 1, column, tap_column, width, x);
  return inside ? ((sample * height + y) * width + x) * static_cast<int>(image.c) : -1;
}

/// An image as one operand of a matmul: (position, tap · channels + channel). A thread copies of a few
/// positions, and looks for those in the image when it comes to another tap.
template <class T, class Walk>
class TensorPatches : public TensorTile<T, false> {
 public:
  using Tile = TensorTile<T, false>;

  __device__ __forceinline__ TensorPatches(const T* data, const ConvProblem& p, const TensorRange& range)
      : data_(data),
        p_(p),
        channels_(static_cast<int>(Walk::image(p).c)),
        step_(kTensorDepth, static_cast<unsigned>(channels_), static_cast<unsigned>(p.kw)),
        // Channel, and column and row of the tap.
        filter_(static_cast<unsigned>(range.depth0) + Tile::column(), static_cast<unsigned>(channels_),
                static_cast<unsigned>(p.kw)) {
    const Image& to = Walk::positions(p);
    INGOT_UNROLL
    for (int i = 0; i < Tile::kCopies; ++i) {
      const std::int64_t position = range.position0 + Tile::row(i);
      const Digits at(static_cast<unsigned>(position), static_cast<unsigned>(to.w),
                      static_cast<unsigned>(to.h));
      columns_[i] = at.low;
      rows_[i] = at.middle;
      samples_[i] = position < range.positions ? at.high : -1;
    }
    look();
  }
  __device__ __forceinline__ void copy(T* tile) {
    INGOT_UNROLL
    for (int i = 0; i < Tile::kCopies; ++i)
      Tile::put(tile, i, data_ + (at_[i] < 0 ? 0 : at_[i] + filter_.low), at_[i] >= 0);
    const int tap_column = filter_.middle, tap_row = filter_.high;
    filter_.add(step_, channels_, static_cast<int>(p_.kw));
    if (filter_.middle != tap_column || filter_.high != tap_row) look();
  }

 private:
  __device__ __forceinline__ void look() {
    const bool exists = filter_.high < p_.kh;
    INGOT_UNROLL
    for (int i = 0; i < Tile::kCopies; ++i)
      at_[i] = exists && samples_[i] >= 0
                   ? find_channels<Walk>(p_, samples_[i], rows_[i], columns_[i], filter_.high, filter_.middle)
                   : -1;
  }

  const T* data_;
  const ConvProblem& p_;
  int channels_;
  Digits step_, filter_;
  int samples_[Tile::kCopies], rows_[Tile::kCopies], columns_[Tile::kCopies];
  int at_[Tile::kCopies];  // where the channels under the tap begin; -1: zeros
};

/// The same transposed, with y's positions as the depth: a thread copies of one tap.
template <class T>
class TransposedPatches : public TensorTile<T, true> {
 public:
  using Tile = TensorTile<T, true>;

  __device__ __forceinline__ TransposedPatches(const T* data, const ConvProblem& p, const TensorRange& range)
      : data_(data),
        p_(p),
        filter_(static_cast<unsigned>(range.position0) + Tile::column(), static_cast<unsigned>(p.x.c),
                static_cast<unsigned>(p.kw)),
        step_(Tile::kApart, static_cast<unsigned>(p.y.w), static_cast<unsigned>(p.y.h)),
        position_(static_cast<unsigned>(range.depth0) + Tile::row(), static_cast<unsigned>(p.y.w),
                  static_cast<unsigned>(p.y.h)),
        left_(filter_.high < p.kh ? static_cast<int>(range.depths - range.depth0) - Tile::row() : 0) {}

  __device__ __forceinline__ void copy(T* tile) {
    INGOT_UNROLL
    for (int i = 0; i < Tile::kCopies; ++i) {
      const int at = find_channels<UnderTaps>(p_, position_.high, position_.middle, position_.low,
                                              filter_.high, filter_.middle);
      const bool inside = at >= 0 && left_ > 0;
      Tile::put(tile, i, data_ + (inside ? at + filter_.low : 0), inside);
      position_.add(step_, static_cast<int>(p_.y.w), static_cast<int>(p_.y.h));
      left_ -= Tile::kApart;
    }
  }

 private:
  static_assert(Tile::kCopies * Tile::kApart == kTensorDepth);
  const T* data_;
  const ConvProblem& p_;
  Digits filter_;           // channel, and column and row of the tap
  Digits step_, position_;  // column, row and sample of what comes next
  int left_;                // positions up to the end
};

/// The filters [output, channel, tap] as [output, tap, channel] or, taps first, [tap, output, channel].
template <class T, bool taps_first>
__global__ void pack_filters_kernel(const __grid_constant__ ConvProblem p, const T* weight, T* packed,
                                    std::int64_t total) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x, channels = p.x.c, taps = p.taps();
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    const std::int64_t rest = i / channels, channel = i - rest * channels;
    const std::int64_t inner = taps_first ? p.y.c : taps, outer = rest / inner, within = rest - outer * inner;
    const std::int64_t output = taps_first ? within : outer, tap = taps_first ? outer : within;
    packed[i] = weight[(output * channels + channel) * taps + tap];
  }
}

template <bool taps_first, class T>
const T* packed_filters(const LaunchSite& site, const ConvProblem& p, const View& weight,
                        const View& scratch) {
  if (p.filter_taps() == 1) return weight.as<T>();
  auto* packed = reinterpret_cast<T*>(scratch.as<float>());
  launch(site, pack_filters_kernel<T, taps_first>, Size3{grid_for(site.stream.device, weight.numel(), 256)},
         Size3{256}, 0, p, weight.as<T>(), packed, weight.numel());
  return packed;
}

template <class T>
__global__ void __launch_bounds__(kTensorThreads)
    tensor_conv_kernel(const __grid_constant__ ConvProblem p, const T* x, const T* filters, const T* bias,
                       T* y) {
  const std::int64_t positions = p.y.n * p.y.h * p.y.w, outputs = p.y.c, depth = p.taps() * p.x.c;
  const std::int64_t row0 = std::int64_t{blockIdx.x} * kTensorTile,
                     column0 = std::int64_t{blockIdx.y} * kTensorTile;
  TensorSums sums;
  add_mma(sums, TensorPatches<T, UnderTaps>(x, p, {row0, positions, 0, depth}),
          TensorOperand<T, false>(filters, depth, {column0, outputs, 0, depth}), depth);
  for_tensor_sums(sums, row0, positions, column0, outputs,
                  [&](std::int64_t position, std::int64_t output, float first, float second) {
                    if (bias != nullptr)
                      first += to_float(bias[output]), second += to_float(bias[output + 1]);
                    store_pair(y + position * outputs + output, first, second);
                  });
}

template <class T>
__global__ void __launch_bounds__(kTensorThreads)
    tensor_conv_backward_data_kernel(const __grid_constant__ ConvProblem p, const T* filters, const T* dy,
                                     T* dx, bool accumulate) {
  const std::int64_t positions = p.x.n * p.x.h * p.x.w, inputs = p.x.c;
  const std::int64_t row0 = std::int64_t{blockIdx.x} * kTensorTile,
                     column0 = std::int64_t{blockIdx.y} * kTensorTile;
  const std::int64_t depth = p.taps() * p.y.c;
  TensorSums sums;
  add_mma(sums, TensorPatches<T, ThroughTaps>(dy, p, {row0, positions, 0, depth}),
          TensorOperand<T, true>(filters, inputs, {column0, inputs, 0, depth}), depth);
  store_mma(sums, dx, inputs, row0, positions, column0, inputs, accumulate);
}

// The sum over y's positions is cut into parts as in conv.cu.
template <class T>
__global__ void __launch_bounds__(kTensorThreads)
    tensor_conv_backward_weight_kernel(const __grid_constant__ ConvProblem p, const T* x, const T* dy,
                                       float* partials, std::int64_t part_positions) {
  const std::int64_t inputs = p.x.c, outputs = p.y.c, taps = p.taps(), columns = taps * inputs;
  const std::int64_t positions = p.y.n * p.y.h * p.y.w, begin = blockIdx.z * part_positions;
  const std::int64_t end = begin + part_positions < positions ? begin + part_positions : positions;
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kTensorTile,
                     column0 = std::int64_t{blockIdx.x} * kTensorTile;
  TensorSums sums;
  add_mma(sums, TensorOperand<T, true>(dy, outputs, {row0, outputs, begin, end}),
          TransposedPatches<T>(x, p, {column0, columns, begin, end}), end - begin);
  float* part = partials + blockIdx.z * outputs * columns;
  for_tensor_sums(sums, row0, outputs, column0, columns,
                  [&](std::int64_t output, std::int64_t k, float first, float second) {
                    const std::int64_t tap = k / inputs, channel = k - tap * inputs;  // an even one
                    float* to = part + (output * inputs + channel) * taps + tap;
                    to[0] = first;
                    to[taps] = second;
                  });
}

Size3 grid_of(std::int64_t rows, std::int64_t columns) {
  const auto tiles = [](std::int64_t n) {
    return static_cast<unsigned>((n + kTensorTile - 1) / kTensorTile);
  };
  return {tiles(rows), tiles(columns)};
}

void run_conv(const ConvArgs& args, Stream stream) {
  const LaunchSite site{"conv", stream, args.x};
  const ConvProblem p(args.x, args.y, args.weight, args.geometry);
  dispatch_device_half(args.x.dtype, [&]<class T>() {
    const T* filters = packed_filters<false, T>(site, p, args.weight, args.scratch);
    launch(site, tensor_conv_kernel<T>, grid_of(p.y.positions(), p.y.c), Size3{kTensorThreads},
           kTensorMemory<TensorTile<T, false>, TensorTile<T, false>>, p, args.x.as<T>(), filters,
           args.bias.as<T>(), args.y.as<T>());
  });
}

void run_conv_backward_data(const ConvBackwardDataArgs& args, Stream stream) {
  const LaunchSite site{"conv_backward_data", stream, args.dx};
  const ConvProblem p(args.dx, args.dy, args.weight, args.geometry);
  dispatch_device_half(args.dx.dtype, [&]<class T>() {
    const T* filters = packed_filters<true, T>(site, p, args.weight, args.scratch);
    launch(site, tensor_conv_backward_data_kernel<T>, grid_of(p.x.positions(), p.x.c), Size3{kTensorThreads},
           kTensorMemory<TensorTile<T, false>, TensorTile<T, true>>, p, filters, args.dy.as<T>(),
           args.dx.as<T>(), args.accumulate);
  });
}

void run_conv_backward_weight(const ConvBackwardWeightArgs& args, Stream stream) {
  const LaunchSite site{"conv_backward_weight", stream, args.x};
  dispatch_device_half(args.x.dtype, [&]<class T>() {
    run_weight_gradient<T>(
        site, args, [&](const ConvProblem& p, std::int64_t part_positions, unsigned parts) {
          Size3 grid = grid_of(p.filter_taps() * p.x.c, p.y.c);
          grid.z = parts;
          launch(site, tensor_conv_backward_weight_kernel<T>, grid, Size3{kTensorThreads},
                 kTensorMemory<TensorTile<T, true>, TensorTile<T, true>>, p, args.x.as<T>(), args.dy.as<T>(),
                 args.scratch.as<float>(), part_positions);
        });
  });
}

bool suits_tensor_cores(const View& x, const View& y, const ConvGeometry& g) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return g.channels_last && g.groups == 1 && x.numel() > 0 && y.numel() > 0 && in_vectors(x, {x.dim(3)}) &&
         in_vectors(y, {y.dim(3)}) && x.numel() <= kMost && y.numel() <= kMost;
}
// Filters of several taps are packed into scratch memory, which is aligned.
bool suits_tensor_cores(const View& weight, const View& scratch) {
  if (weight.dim(2) * weight.dim(3) == 1) return in_vectors(weight, {});
  return scratch && 2 * scratch.numel() >= weight.numel();
}

}  // namespace

void register_tensor_conv() {
  conv.add(DeviceType::cuda, {"tensor_cores", ImplKind::cuda,
                              [](const ConvArgs& args) {
                                return suits_tensor_cores(args.x, args.y, args.geometry) &&
                                       suits_tensor_cores(args.weight, args.scratch);
                              },
                              run_conv});
  conv_backward_data.add(DeviceType::cuda, {"tensor_cores", ImplKind::cuda,
                                            [](const ConvBackwardDataArgs& args) {
                                              return suits_tensor_cores(args.dx, args.dy, args.geometry) &&
                                                     suits_tensor_cores(args.weight, args.scratch);
                                            },
                                            run_conv_backward_data});
  conv_backward_weight.add(DeviceType::cuda, {"tensor_cores", ImplKind::cuda,
                                              [](const ConvBackwardWeightArgs& args) {
                                                return suits_tensor_cores(args.x, args.dy, args.geometry);
                                              },
                                              run_conv_backward_weight});
}

}  // namespace ingot::kernels::cuda
