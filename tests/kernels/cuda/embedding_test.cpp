#include <cmath>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/rng.h"
#include "ingot/kernels/elementwise.h"
#include "ingot/kernels/index.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/index.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using test::kDevice;
using testing::max_error;
using testing::randn;

/// embedding_backward with memory to sort in.
void run_embedding_backward(const Tensor& dy, const Tensor& ids, const Tensor& dweight, bool accumulate) {
  const std::int64_t numbers = kernels::embedding_scratch(ids.view());
  const Tensor scratch = numbers > 0 ? Tensor::empty({numbers}, DType::i32, ids.device()) : Tensor{};
  launch(kernels::embedding_backward, current_stream(ids.device()),
         {.dy = dy.view(),
          .ids = ids.view(),
          .dweight = dweight.view(),
          .scratch = scratch.view(),
          .accumulate = accumulate});
}

// Ids of one, two and three digits, in one tile of the sort and in several, of which the last is not full;
// some are outside of the rows. Rows of one id are added in their order, so the bits are the CPU's.
TEST(CudaEmbedding, SortsIdsOfAnySizeAndKeepsTheOrderOfTheirRows) {
  for (const auto& [rows, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {1, 300}, {255, 257}, {256, 2048}, {300, 4200}, {70000, 2300}}) {
    Rng rng(RngKey{static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(n)});
    std::vector<std::int64_t> list(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < list.size(); ++i) {
      list[i] = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(rows)));
      if (i % 5 == 4) list[i] = list[i / 5 * 3];  // some more often
    }
    const Tensor dy = randn({n, 2}, 1), ids = Tensor::from(list, {n});
    const Tensor expected = Tensor::empty({rows, 2});
    run_embedding_backward(dy, ids, expected, false);
    const Tensor dweight = to(randn({rows, 2}, 2), kDevice);
    run_embedding_backward(to(dy, kDevice), to(ids, kDevice), dweight, false);
    EXPECT_EQ(max_error(dweight, expected), 0.0) << rows << " " << n;

    // Outside of the rows on either side; on the CPU what they would add is zero.
    std::vector<std::int64_t> known = list;
    const Tensor silent = clone(dy);
    for (std::size_t i = 0; i < list.size(); i += 3) {
      list[i] = i % 2 == 0 ? -1 - list[i] : rows + list[i];
      silent.data<float>()[2 * i] = silent.data<float>()[2 * i + 1] = 0;
    }
    run_embedding_backward(silent, Tensor::from(known, {n}), expected, false);
    run_embedding_backward(to(dy, kDevice), to(Tensor::from(list, {n}), kDevice), dweight, false);
    EXPECT_EQ(max_error(dweight, expected), 0.0) << rows << " " << n << ", some outside";
  }
}

// A frequent id: more of its rows than are read at a time, in several lists; columns of several blocks, of no
// whole vector, not aligned.
TEST(CudaEmbedding, AFrequentIdHasTheSumOfItsRows) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const auto& [width, skip] : {std::pair{24, 0}, {1032, 0}, {261, 0}, {24, 1}}) {
      if (width == 1032 && dtype != DType::f32) continue;  // one block's
      std::vector<std::int64_t> list;
      for (std::int64_t i = 0; i < 300; ++i) list.push_back(i % 3 == 0 ? i % 7 : 9);
      const Tensor ids = Tensor::from(list, {300});
      const Tensor rows = to(randn({300 * width + skip}, 1), dtype), start = to(randn({11, width}, 2), dtype);
      for (const bool accumulate : {false, true}) {
        const auto run = [&](Device device) {
          const Tensor dy = reshape(slice(to(rows, device), 0, skip), {300, width});
          const Tensor dweight = device.is_cpu() ? clone(start) : to(start, device);
          const Tensor there = device.is_cpu() ? ids : to(ids, device);
          run_embedding_backward(dy, there, dweight, accumulate);
          return dweight;
        };
        EXPECT_LE(max_error(run(kDevice), run(kCpu)), dtype == DType::f32 ? 1e-4 : 1e-2)
            << width << " " << skip << " " << accumulate;
      }
    }
  }
}

// The host does not wait to check them.
TEST(CudaEmbedding, AnIdOutsideOfTheRowsGivesNaNAndNoGradient) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t width : {1, 2, 3, 8, 12}) {  // words of 2, 4 and 16 bytes
      Tensor weight = to(randn({5, width}, 1, dtype), kDevice);
      weight.set_requires_grad(true);
      const auto run = [&](const std::vector<std::int64_t>& ids) {
        weight.set_grad({});
        const Tensor y =
            embedding(weight, Tensor::from(ids, {static_cast<std::int64_t>(ids.size())}, kDevice));
        BackwardOptions options;
        options.grad = Tensor::empty_like(y);
        launch(kernels::fill, current_stream(kDevice), {.y = options.grad.view(), .value = 1});
        backward(y, options);
        return std::pair(to(to(y.detach(), kCpu), DType::f32), to(to(weight.grad(), kCpu), DType::f32));
      };
      const auto [found, gradient] = run({4, 5, -1, 0, 4});
      const auto [known, expected] = run({4, 0, 4});
      for (std::int64_t c = 0; c < width; ++c) {
        const auto at = [&](const Tensor& x, std::int64_t row) { return x.data<float>()[row * width + c]; };
        EXPECT_TRUE(std::isnan(at(found, 1)) && std::isnan(at(found, 2)));
        EXPECT_EQ(at(found, 0), at(known, 0));
        EXPECT_EQ(at(found, 3), at(known, 1));
        EXPECT_EQ(at(found, 4), at(known, 2));
      }
      EXPECT_EQ(max_error(gradient, expected), 0.0);
    }
  }
}

}  // namespace
}  // namespace ingot
