#include "ingot/base/rng.h"
#include "ingot/kernels/cuda/elementwise/map.h"
#include "ingot/kernels/cuda/register.h"
#include "ingot/kernels/elementwise.h"

namespace ingot::kernels::cuda {
namespace {

// A thread draws one block of Philox, four words, for four neighbours: the very words that the CPU draws.

constexpr int kWords = 4;

struct Words {
  std::uint32_t of[kWords];
};
__device__ __forceinline__ Words words_of(const RngKey& key, std::int64_t block) {
  const auto words = key.block(static_cast<std::uint64_t>(block));
  return {{words[0], words[1], words[2], words[3]}};
}

// A thread's four elements in one access each where the addresses allow it, as those of whole tensors do.
template <class T, bool packed>
__global__ void dropout_kernel(const T* x, T* y, std::int64_t n, float p, float scale, RngKey key,
                               bool accumulate) {
  using Four = Vector<T, kWords>;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t block = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; block * kWords < n;
       block += step) {
    const std::int64_t begin = block * kWords;
    const int count = n - begin < kWords ? static_cast<int>(n - begin) : kWords;
    const bool whole = packed && count == kWords;
    Four from = {}, to = {};
    if (whole) {
      from = load_vector<kWords>(x + begin);
      if (accumulate) to = load_vector<kWords>(y + begin);
    } else {
      INGOT_UNROLL
      for (int k = 0; k < kWords; ++k) {
        if (k >= count) continue;
        from.values[k] = x[begin + k];
        if (accumulate) to.values[k] = y[begin + k];
      }
    }
    const Words words = words_of(key, block);
    INGOT_UNROLL
    for (int k = 0; k < kWords; ++k) {
      const bool keep = uniform_from_bits(words.of[k]) >= p;
      store(&to.values[k], keep ? to_float(from.values[k]) * scale : 0.0F, accumulate);
    }
    if (whole) {
      store_vector(y + begin, to);
    } else {
      INGOT_UNROLL
      for (int k = 0; k < kWords; ++k)
        if (k < count) y[begin + k] = to.values[k];
    }
  }
}

template <class T>
__global__ void random_kernel(T* y, std::int64_t n, Distribution distribution, float a, float b, RngKey key) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t block = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; block * kWords < n;
       block += step) {
    const Words words = words_of(key, block);
    INGOT_UNROLL
    for (int k = 0; k < kWords; ++k) {
      const std::int64_t i = block * kWords + k;
      if (i >= n) continue;
      float value = uniform_from_bits(words.of[k]);
      if (distribution == Distribution::normal) {  // Box and Muller: a pair of words gives a pair of values
        const float radius = sqrtf(-2.0F * logf(1.0F - uniform_from_bits(words.of[k / 2 * 2])));
        const float angle = 6.28318530717958648F * uniform_from_bits(words.of[k / 2 * 2 + 1]);
        value = radius * (k % 2 == 0 ? cosf(angle) : sinf(angle));
      }
      // uniform: a is the lower end, b the width; normal: the mean and the deviation
      y[i] = from_float<T>(a + b * value);
    }
  }
}

void run_dropout(const DropoutArgs& args, Stream stream) {
  const std::int64_t n = args.x.numel();
  if (n == 0) return;
  const auto p = static_cast<float>(args.p);
  const auto address =
      reinterpret_cast<std::uintptr_t>(args.x.data) | reinterpret_cast<std::uintptr_t>(args.y.data);
  dispatch_device_float(args.x.dtype, "dropout", [&]<class T>() {
    const auto go = [&](auto kernel) {
      launch({"dropout", stream, args.x}, kernel, Size3{grid_for(stream.device, n, kWords * 256)}, Size3{256},
             0, args.x.as<T>(), args.y.as<T>(), n, p, 1.0F / (1.0F - p), args.key, args.accumulate);
    };
    go(address % sizeof(Vector<T, kWords>) == 0 ? dropout_kernel<T, true> : dropout_kernel<T, false>);
  });
}

void run_random(const RandomArgs& args, Stream stream) {
  const std::int64_t n = args.y.numel();
  if (n == 0) return;
  const bool uniform = args.distribution == Distribution::uniform;
  const auto a = static_cast<float>(args.a), b = static_cast<float>(uniform ? args.b - args.a : args.b);
  dispatch_device_float(args.y.dtype, "random", [&]<class T>() {
    launch({"random", stream, args.y}, random_kernel<T>, Size3{grid_for(stream.device, n, 4 * 256)},
           Size3{256}, 0, args.y.as<T>(), n, args.distribution, a, b, args.key);
  });
}

}  // namespace

void register_random() {
  dropout.add(DeviceType::cuda,
              {"cuda", ImplKind::cuda, [](const DropoutArgs& args) { return is_device_float(args.x.dtype); },
               run_dropout});
  random.add(DeviceType::cuda,
             {"cuda", ImplKind::cuda, [](const RandomArgs& args) { return is_device_float(args.y.dtype); },
              run_random});
}

}  // namespace ingot::kernels::cuda
