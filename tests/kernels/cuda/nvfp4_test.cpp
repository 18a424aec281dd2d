#include "ingot/kernels/nvfp4.h"

#include <cstring>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"

// Rounding to NVFP4 on the device: the reference's bits.
namespace ingot {
namespace {

using test::kDevice;
using testing::randn;

bool same_floats(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data<float>(), b.data<float>(), a.nbytes()) == 0;
}

Tensor rounded(const Tensor& x, float amax, bool square, bool stochastic, Device device) {
  const Tensor there = device.is_cpu() ? x : to(x, device);
  const Tensor largest = Tensor::from(std::vector<float>{amax}, {1}, device);
  const Tensor y = Tensor::empty(x.shape(), DType::f32, device);
  launch(kernels::round_nvfp4, current_stream(device),
         {.x = there.view(),
          .amax = largest.view(),
          .y = y.view(),
          .square = square,
          .stochastic = stochastic,
          .key = {.seed = 3, .stream = 4}});
  return to(y, kCpu);
}

TEST(CudaNvfp4, RoundsToTheBitsOfTheReference) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {18, 40}, {33, 16}, {5, 130}}) {
    const Tensor x = randn({rows, cols}, 1) * 7.0;
    for (const float amax : {40.0F, 1e-38F, 0.0F}) {
      for (const bool square : {false, true}) {
        for (const bool stochastic : {false, true}) {
          EXPECT_TRUE(same_floats(rounded(x, amax, square, stochastic, kDevice),
                                  rounded(x, amax, square, stochastic, kCpu)))
              << rows << " x " << cols << ", " << amax << (square ? " square" : "")
              << (stochastic ? " stochastic" : "");
        }
      }
    }
  }
}

Tensor transformed(const Tensor& x, Device device) {
  const Tensor there = device.is_cpu() ? x : to(x, device);
  const Tensor y = Tensor::empty({x.dim(1), (x.dim(0) + 15) / 16 * 16}, DType::f32, device);
  launch(kernels::hadamard, current_stream(device), {.x = transposed(there.view()), .y = y.view()});
  return to(y, kCpu);
}

TEST(CudaNvfp4, TransformsToTheBitsOfTheReference) {
  for (const std::int64_t rows : {1, 16, 35}) {
    const Tensor x = randn({rows, 21}, 2);
    EXPECT_TRUE(same_floats(transformed(x, kDevice), transformed(x, kCpu))) << rows;
  }
}

}  // namespace
}  // namespace ingot
