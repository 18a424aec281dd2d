#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/cuda/sequence/scan_shape.h"
#include "ingot/kernels/selective_scan.h"

namespace ingot::kernels::cuda {
namespace {

// A warp for each row of a head's state, whose elements stay with their lane.
__global__ void selective_scan_kernel(ScanShape shape, const float* x, const float* decay, const float* keys,
                                      const float* queries, float* state, float* y) {
  const std::int64_t head = blockIdx.x, lane = threadIdx.x % kWarp;
  for (std::int64_t p = std::int64_t{blockIdx.y} * kScanWarps + threadIdx.x / kWarp; p < shape.size;
       p += std::int64_t{gridDim.y} * kScanWarps) {
    float* row = state + (head * shape.size + p) * shape.width;
    for (std::int64_t t = 0; t < shape.steps; ++t) {
      const std::int64_t at = shape.step(head, t), k = shape.keys(head, t);
      const bool begins = shape.begins(head, t);
      const float kept = begins ? 0.0F : expf(decay[at]), in = x[at * shape.size + p];
      float sum = 0;
      for (std::int64_t n = lane; n < shape.width; n += kWarp) {
        // Not by a product with 0, which would keep the infinities of the document before.
        const float s = (begins ? 0.0F : kept * row[n]) + in * keys[k + n];
        row[n] = s;
        sum += s * queries[k + n];
      }
      sum = warp_sum(sum);
      if (lane == 0) y[at * shape.size + p] = sum;
    }
  }
}

void run_selective_scan(const SelectiveScanArgs& args, Stream stream) {
  const ScanShape shape = scan_shape_of(args.x, args.keys, args.starts);
  const std::int64_t heads = args.x.dim(0) * shape.heads;
  launch(
      {"selective_scan", stream, args.x}, selective_scan_kernel,
      Size3{static_cast<unsigned>(heads), static_cast<unsigned>((shape.size + kScanWarps - 1) / kScanWarps)},
      Size3{kScanBlock}, 0, shape, args.x.as<float>(), args.decay.as<float>(), args.keys.as<float>(),
      args.queries.as<float>(), args.state.as<float>(), args.y.as<float>());
}

struct ScanBackward {
  ScanShape shape;
  const float *x, *decay, *keys, *queries, *y, *dy;
  float *state, *dx, *ddecay, *dkeys, *dqueries;
  bool accumulate_dx, accumulate_ddecay;
};

// A block for each head: states once more for the gradients of queries, then the others from the last step
// back, as the CPU's reference explains them.
__global__ void selective_scan_backward_kernel(const __grid_constant__ ScanBackward args) {
  INGOT_DYNAMIC_SHARED(float, parts);
  const ScanShape& shape = args.shape;
  const std::int64_t head = blockIdx.x, width = shape.width, size = shape.size;
  const std::int64_t lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  float* state = args.state + head * size * width;
  float* part = parts + warp * width;
  for (std::int64_t t = 0; t < shape.steps; ++t) {
    const std::int64_t at = shape.step(head, t), k = shape.keys(head, t);
    const bool first = t == 0 || shape.begins(head, t);
    const float kept = first ? 0.0F : expf(args.decay[at]);
    for (std::int64_t n = lane; n < width; n += kWarp) {
      float sum = 0;
      for (std::int64_t p = warp; p < size; p += kScanWarps) {
        float& s = state[p * width + n];
        s = (first ? 0.0F : kept * s) + args.x[at * size + p] * args.keys[k + n];
        sum += args.dy[at * size + p] * s;
      }
      part[n] = sum;
    }
    add_scan_warps(parts, width, args.dqueries + at * width);
  }
  float kept = 0;
  double next = 0;   // of the steps behind; equal in all threads
  bool ends = true;  // a document: what is behind says nothing of it
  for (std::int64_t t = shape.steps - 1; t >= 0; --t) {
    const std::int64_t at = shape.step(head, t), k = shape.keys(head, t);
    for (std::int64_t n = lane; n < width; n += kWarp) part[n] = 0;
    double change = 0;
    for (std::int64_t p = warp; p < size; p += kScanWarps) {
      const std::int64_t i = at * size + p;
      const float x = args.x[i], dy = args.dy[i];
      float dx = 0;
      for (std::int64_t n = lane; n < width; n += kWarp) {
        float& g = state[p * width + n];
        g = (ends ? 0.0F : kept * g) + dy * args.queries[k + n];
        dx += g * args.keys[k + n];
        part[n] += g * x;
      }
      dx = warp_sum(dx);
      change += static_cast<double>(dy) * static_cast<double>(args.y[i]) -
                static_cast<double>(dx) * static_cast<double>(x);
      if (lane == 0 && args.dx != nullptr) store(args.dx + i, dx, args.accumulate_dx);
    }
    add_scan_warps(parts, width, args.dkeys + at * width);
    next += ThreadGroup<kScanBlock>::sum(lane == 0 ? change : 0.0);
    const bool first = t == 0 || shape.begins(head, t);
    ends = first;
    kept = first ? 0.0F : expf(args.decay[at]);
    if (first) next = 0;
    if (threadIdx.x == 0 && args.ddecay != nullptr)
      store(args.ddecay + at, static_cast<float>(next), args.accumulate_ddecay);
  }
}

void run_selective_scan_backward(const SelectiveScanBackwardArgs& args, Stream stream) {
  const ScanShape shape = scan_shape_of(args.x, args.keys, args.starts);
  const ScanBackward backward{.shape = shape,
                              .x = args.x.as<float>(),
                              .decay = args.decay.as<float>(),
                              .keys = args.keys.as<float>(),
                              .queries = args.queries.as<float>(),
                              .y = args.y.as<float>(),
                              .dy = args.dy.as<float>(),
                              .state = args.scratch.as<float>(),
                              .dx = args.dx ? args.dx.as<float>() : nullptr,
                              .ddecay = args.ddecay ? args.ddecay.as<float>() : nullptr,
                              .dkeys = args.dkeys.as<float>(),
                              .dqueries = args.dqueries.as<float>(),
                              .accumulate_dx = args.accumulate_dx,
                              .accumulate_ddecay = args.accumulate_ddecay};
  launch({"selective_scan_backward", stream, args.x}, selective_scan_backward_kernel,
         Size3{static_cast<unsigned>(args.x.dim(0) * shape.heads)}, Size3{kScanBlock},
         static_cast<std::size_t>(kScanWarps * shape.width) * sizeof(float), backward);
}

}  // namespace

void register_selective_scan() {
  selective_scan.add(
      DeviceType::cuda,
      {"cuda", ImplKind::cuda, [](const SelectiveScanArgs& args) { return args.x.dtype == DType::f32; },
       run_selective_scan});
  selective_scan_backward.add(
      DeviceType::cuda, {"cuda", ImplKind::cuda,
                         [](const SelectiveScanBackwardArgs& args) { return args.x.dtype == DType::f32; },
                         run_selective_scan_backward});
}

}  // namespace ingot::kernels::cuda
