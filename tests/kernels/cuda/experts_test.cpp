#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/grouped_linear.h"
#include "ingot/ops/reduce.h"

// What a mixture of experts runs, where groups have several tiles and steps, beside the CPU.
namespace ingot {
namespace {

using testing::max_error;
using testing::randn;

using test::kDevice;
using test::largest;

struct ExpertResults {
  Tensor y, dx, dweight;
};

ExpertResults run_experts(const Tensor& x, const Tensor& weight, const Tensor& offsets) {
  std::vector<Tensor> in{x.detach(), weight.detach()};
  for (Tensor& t : in) t.set_requires_grad(true);
  const Tensor y = grouped_linear(in[0], in[1], to(offsets, x.device()));
  backward(sum(y * to(to(randn(y.shape(), 9, DType::f64), y.dtype()), y.device())));
  return {y, in[0].grad(), in[1].grad()};
}

TEST(CudaExperts, GroupsOfSeveralTilesEqualTheReference) {
  const Tensor offsets = Tensor::from<std::int64_t>({0, 130, 130, 133, 270, 270}, {6});
  for (const auto& [dtype, bound] :
       {std::pair{DType::f32, 1e-5}, {DType::bf16, 0x1p-7}, {DType::f16, 0x1p-10}}) {
    const Tensor x = to(to(randn({270, 72}, 1, DType::f64), dtype), kDevice),
                 weight = to(to(randn({5, 136, 72}, 2, DType::f64), dtype), kDevice);
    const ExpertResults expected =
        run_experts(to(to(x, kCpu), DType::f64), to(to(weight, kCpu), DType::f64), offsets);
    const kernels::LaunchProfile profile;
    const ExpertResults actual = run_experts(x, weight, offsets);
    for (const kernels::LaunchProfile::Entry& entry : profile.entries()) {
      if (std::string_view(entry.kernel).starts_with("grouped"))
        EXPECT_STREQ(entry.implementation, dtype == DType::f32 ? "tiled" : "tensor_cores");
    }
    EXPECT_LE(max_error(actual.y, expected.y), bound * largest(expected.y)) << name(dtype);
    EXPECT_LE(max_error(actual.dx, expected.dx), bound * largest(expected.dx)) << name(dtype);
    EXPECT_LE(max_error(actual.dweight, expected.dweight), bound * largest(expected.dweight)) << name(dtype);
  }
}

TEST(CudaExperts, PairsGoWhereTheCpuPutsThem) {
  for (const std::int64_t experts : {1, 5, 64, 130}) {
    std::vector<std::int64_t> chosen(3 * 700);
    for (std::size_t i = 0; i < chosen.size(); ++i)
      chosen[i] = static_cast<std::int64_t>(i * i + 3 * i) % experts;  // some are never chosen
    const Tensor pairs = Tensor::from(chosen, {700, 3});
    const ExpertRouting expected = route_experts(pairs, experts),
                        actual = route_experts(to(pairs, kDevice), experts);
    const auto numbers = [](const Tensor& x) { return to(x, kCpu).to_vector<std::int64_t>(); };
    EXPECT_EQ(numbers(actual.offsets), numbers(expected.offsets));
    EXPECT_EQ(numbers(actual.tokens), numbers(expected.tokens));
    EXPECT_EQ(numbers(actual.positions), numbers(expected.positions));
  }
}

}  // namespace
}  // namespace ingot
