#include "ingot/kernels/launch_profile.h"

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/backend.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/norm.h"
#include "ingot/ops/reduce.h"

namespace ingot {
namespace {

using test::kDevice;
using testing::randn;

/// Some kernels in the current stream.
class Work {
 public:
  void run() const {
    Tensor y = x_;
    for (int i = 0; i < 3; ++i) y = softmax(rms_norm(matmul(y, w_), scale_, 1e-5F));
  }

 private:
  Tensor x_ = to(randn({64, 64}, 1), kDevice), w_ = to(randn({64, 64}, 2), kDevice),
         scale_ = to(randn({64}, 3), kDevice);
};

void expect_no_longer_than_the_whole(const Work& work, Stream stream) {
  const StreamGuard guard(stream);
  backend(kDevice).synchronize(stream);
  const kernels::LaunchProfile profile;
  const Stopwatch watch;
  work.run();
  backend(kDevice).synchronize(stream);
  const double whole = watch.seconds();
  double sum = 0;
  for (const auto& entry : profile.entries()) {
    EXPECT_GT(entry.seconds, 0) << entry.kernel;
    sum += entry.seconds;
  }
  EXPECT_EQ(profile.entries().size(), 3U);
  EXPECT_LE(sum, whole);
}

TEST(CudaLaunches, TakeTogetherNoLongerThanTheWhole) {
  const NoGrad no_grad;
  const Work work;
  work.run();  // code is loaded
  expect_no_longer_than_the_whole(work, current_stream(kDevice));
  const Stream other = backend(kDevice).create_stream();
  expect_no_longer_than_the_whole(work, other);
  backend(kDevice).destroy_stream(other);
}

TEST(CudaLaunches, CountWithoutTimeWhereTheyAreCaptured) {
  const NoGrad no_grad;
  const Work work;
  work.run();
  const kernels::LaunchProfile profile;
  const auto captured = backend(kDevice).capture([&] { work.run(); });
  captured->launch(current_stream(kDevice));
  backend(kDevice).synchronize(current_stream(kDevice));
  for (const auto& entry : profile.entries()) {
    EXPECT_EQ(entry.launches, 3) << entry.kernel;
    EXPECT_EQ(entry.seconds, 0) << entry.kernel;
  }
  EXPECT_EQ(profile.entries().size(), 3U);
}

}  // namespace
}  // namespace ingot
