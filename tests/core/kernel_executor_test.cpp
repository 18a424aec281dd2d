#include "ingot/core/kernel_executor.h"

#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

TEST(KernelSignature, AttributesAndCallsOfTheSameNameAreNoDeclaration) {
  const KernelSignature kernel(
      "__device__ float twice_f(float x) { return 2 * x; }\n"
      "// f(int, int) was another\n"
      "extern \"C\" __global__ void __launch_bounds__(256) f(int count, float scale) {}\n",
      "f");
  EXPECT_NO_THROW(kernel.check(std::vector<KernelArgument>{3, 2.0F}, kCpu));
  EXPECT_THROW(kernel.check(std::vector<KernelArgument>{3}, kCpu), KernelError);
  EXPECT_THROW(KernelSignature("extern \"C\" __global__ void g(int count) {}", "f"), KernelError);
}

}  // namespace
}  // namespace ingot
