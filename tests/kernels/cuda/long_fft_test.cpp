#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/ops/cast.h"
#include "ingot/ops/fft.h"

// Transforms of lines whose roots of unity fit into shared memory, just, and of longer ones.
namespace ingot {
namespace {

using test::kDevice;
using test::largest;
using testing::max_error;
using testing::randn;

TEST(CudaFft, LinesOfThousandsOfPositionsEqualTheCpu) {
  constexpr std::int64_t kBins = 6;
  for (const std::int64_t n : {4096, 4097, 5000}) {
    const Tensor x = randn({2, n, 3}, 1), z = randn({2, 2, kBins, 3}, 2);
    const Tensor spectrum = rfft(x, 1, kBins), series = irfft(z, n, 1);
    EXPECT_LE(max_error(rfft(to(x, kDevice), 1, kBins), spectrum), 1e-5 * largest(spectrum)) << n;
    EXPECT_LE(max_error(irfft(to(z, kDevice), n, 1), series), 1e-5 * largest(series)) << n;
  }
}

}  // namespace
}  // namespace ingot
