#include "ingot/kernels/matmul_precision.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/kernels/bf16_dot_products.h"
#include "ingot/kernels/gemm.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/ops/conv.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using kernels::MatmulPrecision;
using kernels::MatmulPrecisionScope;
using testing::randn;
using Tensors = std::vector<Tensor>;

// Operands are rounded by up to 2^-8; such errors of `terms` products of normal numbers add up like a random
// walk, and the worst of some thousand sums lies four deviations out.
double tolerance_of_sum(std::int64_t terms) { return 4 * std::sqrt(static_cast<double>(terms)) / 256; }

std::int64_t rounded_launches(const kernels::LaunchProfile& profile) {
  std::int64_t launches = 0;
  for (const auto& e : profile.entries()) {
    if (std::string_view(e.implementation) == "onednn_bf16_rounded") launches += e.launches;
  }
  return launches;
}

// `run` under both precisions and on the reference: medium rounds `launches` kernels' operands, is as near as
// sums of `terms` rounded products are, and leaves nothing behind.
template <class Run>
void check_rounding(const char* what, std::int64_t terms, std::int64_t launches, Run&& run) {
  const Tensors before = run();
  Tensors medium;
  {
    const MatmulPrecisionScope scope(MatmulPrecision::medium);
    const kernels::LaunchProfile profile;
    medium = run();
    EXPECT_EQ(rounded_launches(profile), launches) << what;
  }
  const Tensors after = run();
  const kernels::ForceKind reference(kernels::ImplKind::reference);
  const Tensors exact = run();
  ASSERT_EQ(medium.size(), exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_LE(testing::max_error(medium[i], exact[i]), tolerance_of_sum(terms)) << what << " " << i;
    EXPECT_NE(medium[i].to_vector<float>(), before[i].to_vector<float>()) << what << " " << i;
    EXPECT_EQ(after[i].to_vector<float>(), before[i].to_vector<float>()) << what << " " << i;
  }
}

class MediumPrecision : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernels::instruction_set_limit() < kernels::InstructionSet::avx512_bf16)
      GTEST_SKIP() << "medium precision rounds on processors with avx512_bf16 only";
    kernels::set_bf16_dot_products(true);
  }
  void TearDown() override { kernels::set_bf16_dot_products(std::nullopt); }
};

TEST_F(MediumPrecision, MatmulsOfEveryLayoutAreNearTheReference) {
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      check_rounding("a layout", 96, 1, [&] {
        const Tensor a = a_transposed ? transpose(randn({96, 130}, 1), 0, 1) : randn({130, 96}, 1);
        const Tensor b = b_transposed ? transpose(randn({140, 96}, 2), 0, 1) : randn({96, 140}, 2);
        return Tensors{matmul(a, b)};
      });
    }
  }
}

TEST_F(MediumPrecision, LinearLayersAddTheirBiasAndTheirGradients) {
  check_rounding("linear", 2 * 160, 6, [] {
    Tensor x = randn({160, 96}, 1), w = randn({144, 96}, 2), b = randn({144}, 3);
    for (Tensor* t : {&x, &w}) t->set_requires_grad(true);
    const Tensor y = linear(x, w, b);
    for (int i = 0; i < 2; ++i) backward(i == 0 ? y : linear(x, w, b), {.grad = randn({160, 144}, 4)});
    return Tensors{y.detach(), x.grad(), w.grad()};
  });
}

TEST_F(MediumPrecision, MatmulsAddToWhatIsThereBesideABias) {
  check_rounding("beta and bias", 96, 1, [] {
    const Tensor a = randn({128, 96}, 1), b = randn({96, 128}, 2), bias = randn({128}, 3);
    Tensor c = randn({128, 128}, 4);
    launch(kernels::gemm, current_stream(c.device()),
           {.a = a.view(), .b = b.view(), .c = c.view(), .bias = bias.view(), .beta = 1.0F});
    return Tensors{c};
  });
}

// The gradient of b is a sum over a's outer axis; 40 items run beside each other.
TEST_F(MediumPrecision, BatchesAndSumsOverThemAreNearTheReference) {
  check_rounding("batch", 3 * 128, 3, [] {
    Tensor a = randn({3, 40, 128, 96}, 1), b = randn({40, 96, 128}, 2);
    for (Tensor* t : {&a, &b}) t->set_requires_grad(true);
    const Tensor y = matmul(a, b);
    backward(y, {.grad = randn({3, 40, 128, 128}, 3)});
    return Tensors{y.detach(), a.grad(), b.grad()};
  });
}

TEST_F(MediumPrecision, SmallMatmulsAreNotRounded) {
  const Tensor a = randn({16, 16}, 1), b = randn({16, 16}, 2);
  const Tensor exact = matmul(a, b);
  const MatmulPrecisionScope scope(MatmulPrecision::medium);
  EXPECT_EQ(matmul(a, b).to_vector<float>(), exact.to_vector<float>());
}

TEST_F(MediumPrecision, ConvolutionsAndTheirGradientsAreNearTheReference) {
  for (const ChannelLayout layout : {ChannelLayout::first, ChannelLayout::last}) {
    check_rounding("conv2d", 8 * 12 * 14, 3, [&] {
      const bool last = layout == ChannelLayout::last;
      Tensor x = randn(last ? Shape{8, 12, 14, 16} : Shape{8, 16, 12, 14}, 1), w = randn({32, 16, 3, 3}, 2);
      for (Tensor* t : {&x, &w}) t->set_requires_grad(true);
      const Tensor y = conv2d(x, w, randn({32}, 3), {.padding = {1, 1}, .layout = layout});
      backward(y, {.grad = randn(y.shape(), 4)});
      return Tensors{y.detach(), x.grad(), w.grad()};
    });
  }
}

// Shapes that our own kernels take under `highest`.
TEST_F(MediumPrecision, ConvolutionsOverTimeAddTheirGradients) {
  check_rounding("conv1d", 2 * 12 * 34, 6, [] {
    Tensor x = randn({12, 34, 64}, 1), w = randn({64, 64, 3}, 2), b = randn({64}, 3);
    for (Tensor* t : {&x, &w, &b}) t->set_requires_grad(true);
    Tensor y;
    for (int i = 0; i < 2; ++i) {
      y = conv1d(x, w, b, {.padding = 1, .layout = ChannelLayout::last});
      backward(y, {.grad = randn({12, 34, 64}, 4)});
    }
    return Tensors{y.detach(), x.grad(), w.grad()};
  });
}

TEST(MatmulPrecision, IsHighestUntilSetAndPutBackByItsScope) {
  EXPECT_EQ(kernels::matmul_precision(), MatmulPrecision::highest);
  {
    const MatmulPrecisionScope outer(MatmulPrecision::medium);
    { const MatmulPrecisionScope inner(MatmulPrecision::highest); }
    EXPECT_EQ(kernels::matmul_precision(), MatmulPrecision::medium);
  }
  EXPECT_EQ(kernels::matmul_precision(), MatmulPrecision::highest);
}

TEST(MatmulPrecision, ReadsItsNamesAndSuggestsOneOfThem) {
  EXPECT_EQ(kernels::parse_matmul_precision("highest"), MatmulPrecision::highest);
  EXPECT_EQ(kernels::parse_matmul_precision("medium"), MatmulPrecision::medium);
  try {
    kernels::parse_matmul_precision("meduim");
    FAIL() << "accepted";
  } catch (const InvalidConfig& error) {
    EXPECT_NE(std::string_view(error.what()).find("did you mean 'medium'"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace ingot
