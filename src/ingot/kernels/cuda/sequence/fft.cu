#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/fft.h"

namespace ingot::kernels::cuda {
namespace {

// The sums as they are written, not a fast transform: n · bins multiply-adds a line. The models that
// transform have lines of a few hundred positions and keep few bins, where that is a small matmul. Any n, and
// the lines may be interleaved: neighbouring threads read neighbouring lines, or one position of the same.

constexpr int kBlock = 128;
constexpr int kAtOnce = 4;                 // results of a thread, so that what it reads serves several
constexpr std::int64_t kMostRoots = 4096;  // that fit into shared memory beside other blocks

struct Root {
  float re, im;
};

/// e^(2πi·j/n) for j below n: a table in shared memory, or computed where that is too small.
struct Roots {
  const Root* table;  // may be null
  std::int64_t n;

  __device__ static Root compute(std::int64_t j, std::int64_t n) {
    // The angle is reduced in whole numbers, so that its f32 is near zero: j/n up to 1/2, either way.
    const std::int64_t near = 2 * j > n ? j - n : j;
    Root root{};
    sincospif(2.0F * static_cast<float>(near) / static_cast<float>(n), &root.im, &root.re);
    return root;
  }
  __device__ Root at(std::int64_t j) const { return table != nullptr ? table[j] : compute(j, n); }
};

/// Fills the table, which all threads of a block must call for.
__device__ Roots make_roots(Root* table, std::int64_t n) {
  if (n > kMostRoots) return {nullptr, n};
  for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) table[j] = Roots::compute(j, n);
  __syncthreads();
  return {table, n};
}
std::size_t roots_bytes(std::int64_t n) {  // a kernel that declares an array has one
  return static_cast<std::size_t>(n > kMostRoots ? 1 : n) * sizeof(Root);
}

template <class T>
struct FftKernel {
  const T* x;
  T* y;
  std::int64_t outer, n, inner, bins;
  float edge, interior;
  bool accumulate;

  __device__ bool is_edge(std::int64_t k) const { return k == 0 || 2 * k == n; }
  __device__ std::int64_t plane() const { return outer * bins * inner; }
};

/// (a + b) mod n, for a and b below n.
__device__ __forceinline__ std::int64_t sum_modulo(std::int64_t a, std::int64_t b, std::int64_t n) {
  return a + b < n ? a + b : a + b - n;
}

template <class T>
__global__ void real_fft_kernel(const __grid_constant__ FftKernel<T> args) {
  INGOT_DYNAMIC_SHARED(Root, table);
  const Roots roots = make_roots(table, args.n);
  const std::int64_t groups = (args.bins + kAtOnce - 1) / kAtOnce,
                     step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < args.outer * groups * args.inner; i += step) {
    const std::int64_t c = i % args.inner, k0 = i / args.inner % groups * kAtOnce,
                       o = i / args.inner / groups;
    const T* x = args.x + o * args.n * args.inner + c;
    float re[kAtOnce] = {}, im[kAtOnce] = {};
    std::int64_t angle[kAtOnce] = {};
    for (std::int64_t t = 0; t < args.n; ++t) {
      const float value = to_float(x[t * args.inner]);
      INGOT_UNROLL
      for (int v = 0; v < kAtOnce; ++v) {
        const Root root = roots.at(angle[v]);
        re[v] += value * root.re;
        im[v] -= value * root.im;
        angle[v] = sum_modulo(angle[v], (k0 + v) % args.n, args.n);
      }
    }
    INGOT_UNROLL
    for (int v = 0; v < kAtOnce; ++v) {
      const std::int64_t k = k0 + v;
      if (k >= args.bins) continue;
      const bool edge = args.is_edge(k);
      const float weight = edge ? args.edge : args.interior;
      T* y = args.y + (o * args.bins + k) * args.inner + c;
      store(y, weight * re[v], args.accumulate);
      store(y + args.plane(), edge ? 0.0F : weight * im[v], args.accumulate);
    }
  }
}

template <class T>
__global__ void inverse_real_fft_kernel(const __grid_constant__ FftKernel<T> args) {
  INGOT_DYNAMIC_SHARED(Root, table);
  const Roots roots = make_roots(table, args.n);
  const std::int64_t groups = (args.n + kAtOnce - 1) / kAtOnce, step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < args.outer * groups * args.inner; i += step) {
    const std::int64_t c = i % args.inner, t0 = i / args.inner % groups * kAtOnce,
                       o = i / args.inner / groups;
    const T* x = args.x + o * args.bins * args.inner + c;
    float sums[kAtOnce] = {};
    std::int64_t angle[kAtOnce] = {};
    for (std::int64_t k = 0; k < args.bins; ++k) {
      const bool edge = args.is_edge(k);
      const float weight = edge ? args.edge : args.interior;
      const float re = weight * to_float(x[k * args.inner]);
      const float im = edge ? 0.0F : weight * to_float(x[args.plane() + k * args.inner]);
      INGOT_UNROLL
      for (int v = 0; v < kAtOnce; ++v) {
        const Root root = roots.at(angle[v]);
        sums[v] += re * root.re - im * root.im;
        angle[v] = sum_modulo(angle[v], (t0 + v) % args.n, args.n);
      }
    }
    INGOT_UNROLL
    for (int v = 0; v < kAtOnce; ++v) {
      if (t0 + v < args.n) store(args.y + (o * args.n + t0 + v) * args.inner + c, sums[v], args.accumulate);
    }
  }
}

/// `line` is the tensor of [outer, n, inner], `spectrum` that of [2, outer, bins, inner].
template <class T, class Args>
FftKernel<T> kernel_args(const Args& args, const View& line, const View& spectrum) {
  return {.x = args.x.template as<T>(),
          .y = args.y.template as<T>(),
          .outer = line.dim(0),
          .n = line.dim(1),
          .inner = line.dim(2),
          .bins = spectrum.dim(2),
          .edge = static_cast<float>(args.edge),
          .interior = static_cast<float>(args.interior),
          .accumulate = args.accumulate};
}

template <class T>
void run(const LaunchSite& site, void (*kernel)(FftKernel<T>), const FftKernel<T>& args,
         std::int64_t results) {
  const std::int64_t threads = args.outer * args.inner * ((results + kAtOnce - 1) / kAtOnce);
  if (threads == 0) return;
  launch(site, kernel, Size3{grid_for(site.stream.device, threads, kBlock)}, Size3{kBlock},
         roots_bytes(args.n), args);
}

void run_real_fft(const RealFftArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "real_fft", [&]<class T>() {
    const FftKernel<T> made = kernel_args<T>(args, args.x, args.y);
    run({"real_fft", stream, args.x}, real_fft_kernel<T>, made, made.bins);
  });
}

void run_inverse_real_fft(const InverseRealFftArgs& args, Stream stream) {
  dispatch_device_float(args.x.dtype, "inverse_real_fft", [&]<class T>() {
    const FftKernel<T> made = kernel_args<T>(args, args.y, args.x);
    run({"inverse_real_fft", stream, args.x}, inverse_real_fft_kernel<T>, made, made.n);
  });
}

}  // namespace

void register_fft() {
  inverse_real_fft.add(
      DeviceType::cuda,
      {"direct", ImplKind::cuda, [](const InverseRealFftArgs& args) { return is_device_float(args.x.dtype); },
       run_inverse_real_fft});
  real_fft.add(DeviceType::cuda,
               {"direct", ImplKind::cuda,
                [](const RealFftArgs& args) { return is_device_float(args.x.dtype); }, run_real_fft});
}

}  // namespace ingot::kernels::cuda
