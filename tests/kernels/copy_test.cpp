#include "ingot/kernels/copy.h"

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/ops/view.h"

namespace ingot {
namespace {

using kernels::ForceKind;
using kernels::ImplKind;
using testing::randn;

struct Layout {
  const char* name;
  Tensor (*of)(const Tensor&);  // of a [6, 70, 33] tensor
};

const Layout kLayouts[] = {
    {"contiguous", [](const Tensor& x) { return x; }},
    {"last two swapped", [](const Tensor& x) { return transpose(x, 1, 2); }},
    {"outer two swapped", [](const Tensor& x) { return transpose(x, 0, 1); }},
    {"every third column", [](const Tensor& x) { return slice(x, 2, 1, 33, 3); }},
    {"one row for all",
     [](const Tensor& x) {
       return broadcast_to(slice(x, 1, 4, 5), {6, 70, 33});
     }},
};

std::vector<float> copied(const Tensor& x, DType dtype, bool accumulate, ImplKind kind) {
  const Tensor y = randn(x.shape(), 9, dtype);
  {
    const ForceKind force(kind);
    launch(kernels::copy, current_stream(kCpu), {.x = x.view(), .y = y.view(), .accumulate = accumulate});
  }
  const Tensor wide = Tensor::empty(x.shape());
  launch(kernels::copy, current_stream(kCpu), {.x = y.view(), .y = wide.view()});
  return wide.to_vector<float>();
}

TEST(CopyKernel, SimdEqualsTheReferenceInEveryLayoutAndConversion) {
  for (const DType from : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor whole = randn({6, 70, 33}, 3, from);
    for (const Layout& layout : kLayouts) {
      const Tensor x = layout.of(whole);
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        SCOPED_TRACE(std::string(layout.name) + " " + std::string(name(from)) + " to " +
                     std::string(name(dtype)));
        EXPECT_EQ(copied(x, dtype, false, ImplKind::simd), copied(x, dtype, false, ImplKind::reference));
        if (dtype != DType::f32 && dtype != from) continue;  // the reference rounds x before it adds
        EXPECT_EQ(copied(x, dtype, true, ImplKind::simd), copied(x, dtype, true, ImplKind::reference));
      }
    }
  }
}

}  // namespace
}  // namespace ingot
