#include "ingot/train/machine_limit.h"

#include <algorithm>
#include <array>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/backend.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/random.h"

namespace ingot {
namespace {

// A GPU at its power limit lowers its clock within milliseconds of hard work, and for a second by more than
// it needs to: an H200 reached 558 to 598 TFLOP/s in 8192³ about a second after such work began, and 672 to
// 696 a second later.
constexpr double kSettlingSeconds = 1, kSampleSeconds = 0.02;

// Sides of the matmuls: large enough to fill the device, without taking more than a quarter of what is free.
std::int64_t side(ComputeBackend& on, DType dtype) {
  if (!on.capabilities().streams) return 1024;
  std::int64_t n = 8192;
  const std::size_t available = on.memory_info().free / 4;
  while (n > 1024 && 3 * estimate_tensor_bytes({n, n}, dtype) > available) n /= 2;
  return n;
}

}  // namespace

double measure_matmul_flops(DType dtype, Device device) {
  const NoGrad no_grad;
  ComputeBackend& on = backend(device);
  const std::int64_t n = side(on, dtype);
  const Tensor a = Tensor::empty({n, n}, dtype, device), b = Tensor::empty({n, n}, dtype, device);
  // Zeros take less power, so that a GPU that is limited by it multiplies them faster than anything else.
  normal_(a, 0, 1, {.seed = 1});
  normal_(b, 0, 1, {.seed = 2});
  // Of one matmul, among `times` back to back.
  const auto time = [&](std::int64_t times) {
    const Stopwatch watch;
    for (std::int64_t i = 0; i < times; ++i) static_cast<void>(matmul(a, b));
    on.synchronize(current_stream(device));
    return watch.seconds() / static_cast<double>(times);
  };
  time(1);  // threads start, pages are touched, libraries choose
  std::int64_t times = 1;
  if (on.capabilities().streams) {
    times = std::clamp<std::int64_t>(static_cast<std::int64_t>(kSampleSeconds / time(1)), 1, 100);
    for (const Stopwatch watch; watch.seconds() < kSettlingSeconds;) time(times);
  }
  std::array<double, 5> seconds{};
  for (double& s : seconds) s = time(times);
  std::ranges::sort(seconds);
  const auto size = static_cast<double>(n);
  return 2.0 * size * size * size / seconds[seconds.size() / 2];
}

}  // namespace ingot
