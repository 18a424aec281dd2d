#include "ingot/train/machine_limit.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "ingot/autograd/grad_mode.h"
#include "ingot/ops/matmul.h"

namespace ingot {

double measure_matmul_flops(Device device) {
  constexpr std::int64_t kSize = 1024;
  const NoGrad no_grad;
  const Tensor a = Tensor::zeros({kSize, kSize}, DType::f32, device);
  const Tensor b = Tensor::zeros({kSize, kSize}, DType::f32, device);
  static_cast<void>(matmul(a, b));  // threads start, pages are touched
  std::array<double, 5> seconds{};
  for (double& s : seconds) {
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(matmul(a, b));
    s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::ranges::sort(seconds);
  return 2.0 * kSize * kSize * kSize / seconds[seconds.size() / 2];
}

}  // namespace ingot
