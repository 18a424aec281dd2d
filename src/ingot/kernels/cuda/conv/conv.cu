#include "ingot/kernels/cuda/conv/conv_parts.h"
#include "ingot/kernels/cuda/gemm/simt_gemm.h"
#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

// Convolutions as matmuls whose operands are read where they lie: a position of the image and a tap
// of the filter say where. Rows and columns of a matmul are those of one group of channels.

/// Index k of [channel, row, column] of a filter, or with channels last of [row, column, channel]: whatever
/// makes neighbours in k neighbours in the image.
struct Tap {
  std::int64_t channel, row, column;

  __device__ Tap(const ConvProblem& p, std::int64_t k, std::int64_t channels) {
    if (p.x.last) {
      const std::int64_t position = k / channels;
      channel = k - position * channels;
      row = position / p.kw;
      column = position - row * p.kw;
    } else {
      channel = k / p.taps();
      const std::int64_t position = k - channel * p.taps();
      row = position / p.kw;
      column = position - row * p.kw;
    }
  }
};

/// x under the taps of a position of y: (position of y, tap) or, transposed, (tap, position).
template <class T>
struct Patches {
  const T* x;
  const ConvProblem& p;
  std::int64_t first, channels;  // of the group
  bool along_depth;
  bool transposed;

  __device__ float at(std::int64_t position, std::int64_t depth) const {
    return transposed ? value(depth, position) : value(position, depth);
  }
  __device__ float value(std::int64_t position, std::int64_t k) const {
    const std::int64_t plane = p.y.h * p.y.w, n = position / plane, rest = position - n * plane;
    const std::int64_t oh = rest / p.y.w, ow = rest - oh * p.y.w;
    const Tap tap(p, k, channels);
    const std::int64_t ih = oh * p.stride[0] - p.padding[0] + tap.row * p.dilation[0];
    const std::int64_t iw = ow * p.stride[1] - p.padding[1] + tap.column * p.dilation[1];
    return p.x.has(ih, iw) ? to_float(x[p.x.at(n, first + tap.channel, ih, iw)]) : 0.0F;
  }
};

/// The filters, (output, tap of an input channel).
template <class T>
struct Filters {
  const T* weight;  // of the group's first output
  const ConvProblem& p;
  std::int64_t channels;
  bool along_depth = true;

  __device__ float at(std::int64_t output, std::int64_t k) const {
    const Tap tap(p, k, channels);
    return to_float(weight[((output * channels + tap.channel) * p.kh + tap.row) * p.kw + tap.column]);
  }
};

/// The filters as the gradient of x reads them, (input channel, tap of an output).
template <class T>
struct FiltersOfInput {
  const T* weight;  // of the group's first output
  const ConvProblem& p;
  std::int64_t inputs, outputs;
  bool along_depth = false;

  __device__ float at(std::int64_t input, std::int64_t k) const {
    const Tap tap(p, k, outputs);
    return to_float(weight[((tap.channel * inputs + input) * p.kh + tap.row) * p.kw + tap.column]);
  }
};

/// dy where it was computed from a position of x through a tap, (position of x, tap of an output).
template <class T>
struct PatchesOfInput {
  const T* dy;
  const ConvProblem& p;
  std::int64_t first, outputs;  // of the group
  bool along_depth;

  __device__ float at(std::int64_t position, std::int64_t k) const {
    const std::int64_t plane = p.x.h * p.x.w, n = position / plane, rest = position - n * plane;
    const std::int64_t ih = rest / p.x.w, iw = rest - ih * p.x.w;
    const Tap tap(p, k, outputs);
    const std::int64_t h = ih + p.padding[0] - tap.row * p.dilation[0];
    const std::int64_t w = iw + p.padding[1] - tap.column * p.dilation[1];
    if (h % p.stride[0] != 0 || w % p.stride[1] != 0) return 0.0F;
    const std::int64_t oh = h / p.stride[0], ow = w / p.stride[1];
    return p.y.has(oh, ow) ? to_float(dy[p.y.at(n, first + tap.channel, oh, ow)]) : 0.0F;
  }
};

/// dy, (output of the group, position).
template <class T>
struct Gradients {
  const T* dy;
  const ConvProblem& p;
  std::int64_t first;
  bool along_depth;

  __device__ float at(std::int64_t output, std::int64_t position) const {
    return to_float(dy[p.y.at_position(position, first + output)]);
  }
};

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    conv_kernel(const __grid_constant__ ConvProblem p, const T* x, const T* weight, const T* bias, T* y) {
  const std::int64_t inputs = p.x.c / p.groups, outputs = p.y.c / p.groups, positions = p.y.n * p.y.h * p.y.w;
  const std::int64_t group = blockIdx.y, depth = inputs * p.taps();
  const Patches<T> patches{x, p, group * inputs, inputs, p.x.last, false};
  const Filters<T> filters{weight + group * outputs * depth, p, inputs};
  const TilePosition position(outputs);
  float sums[kSide][kSide] = {};
  add_matmul(patches, positions, filters, outputs, position, 0, depth, sums);
  for_results(position, positions, outputs, sums, [&](std::int64_t at, std::int64_t output, float sum) {
    const std::int64_t o = group * outputs + output;
    y[p.y.at_position(at, o)] = from_float<T>(bias == nullptr ? sum : sum + to_float(bias[o]));
  });
}

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    conv_backward_data_kernel(const __grid_constant__ ConvProblem p, const T* weight, const T* dy, T* dx,
                              bool accumulate) {
  const std::int64_t inputs = p.x.c / p.groups, outputs = p.y.c / p.groups, positions = p.x.n * p.x.h * p.x.w;
  const std::int64_t group = blockIdx.y;
  const PatchesOfInput<T> patches{dy, p, group * outputs, outputs, p.y.last};
  const FiltersOfInput<T> filters{weight + group * outputs * inputs * p.taps(), p, inputs, outputs};
  const TilePosition position(inputs);
  float sums[kSide][kSide] = {};
  add_matmul(patches, positions, filters, inputs, position, 0, outputs * p.taps(), sums);
  for_results(position, positions, inputs, sums, [&](std::int64_t at, std::int64_t input, float sum) {
    store(dx + p.x.at_position(at, group * inputs + input), sum, accumulate);
  });
}

// The sum over all positions is cut into parts, blockIdx.z, that are summed apart into partials [part,
// weight] and then in their order.
template <class T>
__global__ void __launch_bounds__(kTileThreads)
    conv_backward_weight_kernel(const __grid_constant__ ConvProblem p, const T* x, const T* dy,
                                float* partials, std::int64_t part_positions) {
  const std::int64_t inputs = p.x.c / p.groups, outputs = p.y.c / p.groups, positions = p.y.n * p.y.h * p.y.w;
  const std::int64_t group = blockIdx.y, columns = inputs * p.taps();
  const std::int64_t begin = blockIdx.z * part_positions;
  const std::int64_t end = begin + part_positions < positions ? begin + part_positions : positions;
  const Gradients<T> gradients{dy, p, group * outputs, !p.y.last};
  const Patches<T> patches{x, p, group * inputs, inputs, !p.x.last, true};
  const TilePosition position(columns);
  float sums[kSide][kSide] = {};
  add_matmul(gradients, outputs, patches, columns, position, begin, end, sums);
  float* part = partials + blockIdx.z * p.y.c * columns;
  for_results(position, outputs, columns, sums, [&](std::int64_t output, std::int64_t k, float sum) {
    const Tap tap(p, k, inputs);
    const std::int64_t o = group * outputs + output;
    part[((o * inputs + tap.channel) * p.kh + tap.row) * p.kw + tap.column] = sum;
  });
}

Size3 grid_of(std::int64_t rows, std::int64_t columns, std::int64_t groups, unsigned parts = 1) {
  return {static_cast<unsigned>(tiles(rows, columns)), static_cast<unsigned>(groups), parts};
}

void run_conv(const ConvArgs& args, Stream stream) {
  const ConvProblem p(args.x, args.y, args.weight, args.geometry);
  if (args.y.numel() == 0) return;
  dispatch_device_float(args.x.dtype, "conv", [&]<class T>() {
    launch({"conv", stream, args.x}, conv_kernel<T>, grid_of(p.y.positions(), p.outputs(), p.groups),
           Size3{kTileThreads}, 0, p, args.x.as<T>(), args.weight.as<T>(), args.bias.as<T>(), args.y.as<T>());
  });
}

void run_conv_backward_data(const ConvBackwardDataArgs& args, Stream stream) {
  const ConvProblem p(args.dx, args.dy, args.weight, args.geometry);
  if (args.dx.numel() == 0) return;
  dispatch_device_float(args.dx.dtype, "conv_backward_data", [&]<class T>() {
    launch({"conv_backward_data", stream, args.dx}, conv_backward_data_kernel<T>,
           grid_of(p.x.positions(), p.inputs(), p.groups), Size3{kTileThreads}, 0, p, args.weight.as<T>(),
           args.dy.as<T>(), args.dx.as<T>(), args.accumulate);
  });
}

void run_conv_backward_weight(const ConvBackwardWeightArgs& args, Stream stream) {
  const LaunchSite site{"conv_backward_weight", stream, args.x};
  dispatch_device_float(args.x.dtype, "conv_backward_weight", [&]<class T>() {
    run_weight_gradient<T>(
        site, args, [&](const ConvProblem& p, std::int64_t part_positions, unsigned parts) {
          launch(site, conv_backward_weight_kernel<T>,
                 grid_of(p.outputs(), p.inputs() * p.filter_taps(), p.groups, parts), Size3{kTileThreads}, 0,
                 p, args.x.as<T>(), args.dy.as<T>(), args.scratch.as<float>(), part_positions);
        });
  });
}

/// A channels-last signal under the taps of a position of y: (position of y, tap · channels + channel).
template <class T>
struct SignalPatches {
  const T* x;
  std::int64_t width, channels, out_width, padding;
  bool along_depth = true;

  __device__ float at(std::int64_t position, std::int64_t k) const {
    const std::int64_t n = position / out_width, tap = k / channels;
    const std::int64_t w = position - n * out_width + tap - padding;
    return w >= 0 && w < width ? to_float(x[(n * width + w) * channels + (k - tap * channels)]) : 0.0F;
  }
};
template <class T>
struct PackedFilters {
  const T* packed;
  std::int64_t depth;
  bool along_depth = false;

  __device__ float at(std::int64_t output, std::int64_t k) const {
    return to_float(packed[(output / kConvPanel * depth + k) * kConvPanel + output % kConvPanel]);
  }
};

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    conv_packed_kernel(const __grid_constant__ SignalPatches<T> patches,
                       const __grid_constant__ PackedFilters<T> filters, const T* bias, T* y,
                       std::int64_t positions, std::int64_t outputs) {
  const TilePosition position(outputs);
  float sums[kSide][kSide] = {};
  add_matmul(patches, positions, filters, outputs, position, 0, filters.depth, sums);
  for_results(position, positions, outputs, sums, [&](std::int64_t at, std::int64_t output, float sum) {
    y[at * outputs + output] = from_float<T>(bias == nullptr ? sum : sum + to_float(bias[output]));
  });
}

void run_conv_packed(const ConvPackedArgs& args, Stream stream) {
  const std::int64_t positions = args.y.dim(0) * args.y.dim(1), outputs = args.y.dim(2);
  if (positions * outputs == 0) return;
  dispatch_device_float(args.x.dtype, "conv_packed", [&]<class T>() {
    const SignalPatches<T> patches{args.x.as<T>(), args.x.dim(1), args.x.dim(2), args.y.dim(1), args.padding};
    const PackedFilters<T> filters{args.packed.as<T>(), args.packed.dim(1)};
    launch({"conv_packed", stream, args.x}, conv_packed_kernel<T>, grid_of(positions, outputs, 1),
           Size3{kTileThreads}, 0, patches, filters, args.bias.as<T>(), args.y.as<T>(), positions, outputs);
  });
}

template <class T>
__global__ void conv_pack_kernel(const T* weight, T* packed, std::int64_t outputs, std::int64_t channels,
                                 std::int64_t taps, std::int64_t total) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x, depth = channels * taps;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < total; i += step) {
    const std::int64_t k = i / kConvPanel % depth, o = i / (depth * kConvPanel) * kConvPanel + i % kConvPanel;
    packed[i] =
        o < outputs ? weight[(o * channels + k % channels) * taps + k / channels] : from_float<T>(0.0F);
  }
}

void run_conv_pack(const ConvPackArgs& args, Stream stream) {
  const std::int64_t total = args.packed.numel();
  if (total == 0) return;
  dispatch_device_float(args.weight.dtype, "conv_pack", [&]<class T>() {
    launch({"conv_pack", stream, args.weight}, conv_pack_kernel<T>,
           Size3{grid_for(stream.device, total, 256)}, Size3{256}, 0, args.weight.as<T>(),
           args.packed.as<T>(), args.weight.dim(0), args.weight.dim(1), args.weight.dim(2), total);
  });
}

}  // namespace

void register_conv() {
  conv.add(DeviceType::cuda, {"tiled", ImplKind::cuda,
                              [](const ConvArgs& args) { return is_device_float(args.x.dtype); }, run_conv});
  conv_backward_data.add(DeviceType::cuda,
                         {"tiled", ImplKind::cuda,
                          [](const ConvBackwardDataArgs& args) { return is_device_float(args.dx.dtype); },
                          run_conv_backward_data});
  conv_backward_weight.add(DeviceType::cuda,
                           {"tiled", ImplKind::cuda,
                            [](const ConvBackwardWeightArgs& args) { return is_device_float(args.x.dtype); },
                            run_conv_backward_weight});
  conv_pack.add(DeviceType::cuda,
                {"cuda", ImplKind::cuda,
                 [](const ConvPackArgs& args) { return is_device_float(args.weight.dtype); }, run_conv_pack});
  conv_packed.add(DeviceType::cuda, {"tiled", ImplKind::cuda,
                                     [](const ConvPackedArgs& args) { return is_device_float(args.x.dtype); },
                                     run_conv_packed});
}

}  // namespace ingot::kernels::cuda
