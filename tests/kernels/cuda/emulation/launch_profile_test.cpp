#include "ingot/kernels/launch_profile.h"

#include <chrono>
#include <string_view>
#include <thread>

#include "tests/emulated_gpu/queue.h"
#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/stopwatch.h"
#include "ingot/core/backend.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/reduce.h"

// Profiles of a device that works when the host waits for it, as the slowest GPU would.
namespace ingot::kernels::cuda {
namespace {

using emulation::Deferred;
using test::kDevice;

constexpr double kWork = 0.010;  // seconds

/// Work that takes the device a while.
void work(Stream stream, double seconds = kWork) {
  emulation::submit(stream.native,
                    [=] { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); });
}

class CudaLaunchProfile : public ::testing::Test {
 protected:
  ~CudaLaunchProfile() override {
    for (const Stream stream : {a_, b_}) backend(kDevice).destroy_stream(stream);
  }
  static double seconds(const LaunchProfile& profile, std::string_view implementation = "") {
    double sum = 0;
    for (const auto& entry : profile.entries())
      if (implementation.empty() || entry.implementation == implementation) sum += entry.seconds;
    return sum;
  }

  Stream a_ = backend(kDevice).create_stream(), b_ = backend(kDevice).create_stream();
};

TEST_F(CudaLaunchProfile, TellsTheTimeOfKernelsAndNotOfTheirLaunches) {
  const Tensor x = to(testing::randn({512, 256}, 1), kDevice);
  const Deferred deferred;
  const LaunchProfile profile;
  const Tensor y = softmax(x);
  const Stopwatch watch;
  backend(kDevice).synchronize(current_stream(kDevice));
  const double waited = watch.seconds();
  EXPECT_LE(seconds(profile), waited);
  EXPECT_GT(seconds(profile), waited / 2);
}

TEST_F(CudaLaunchProfile, CountsAKernelWithoutThoseThatItLaunches) {
  const Deferred deferred;
  const Stopwatch watch;
  const LaunchProfile profile;
  {
    const LaunchTimer outer("outer", "outer", a_);
    work(a_);
    for (int i = 0; i < 2; ++i) {
      const LaunchTimer inner("inner", "inner", a_);
      work(a_, 2 * kWork);
    }
    work(a_);
  }
  backend(kDevice).synchronize(a_);
  EXPECT_GE(seconds(profile, "outer"), 2 * kWork);
  EXPECT_GE(seconds(profile, "inner"), 4 * kWork);
  EXPECT_LE(seconds(profile), watch.seconds());
}

TEST_F(CudaLaunchProfile, KeepsTwoImplementationsApart) {
  const Deferred deferred;
  const LaunchProfile profile;
  for (const char* implementation : {"slow", "fast", "slow"}) {
    const LaunchTimer timer("kernel", implementation, a_);
    if (implementation == std::string_view("slow")) work(a_);
  }
  const auto entries = profile.entries();
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(std::string_view(entries[0].implementation), "slow");
  EXPECT_EQ(entries[0].launches, 2);
  EXPECT_GE(entries[0].seconds, 2 * kWork);
  EXPECT_EQ(entries[1].launches, 1);
}

TEST_F(CudaLaunchProfile, TimesEachStreamByItself) {
  const Deferred deferred;
  const Stopwatch watch;
  const LaunchProfile profile;
  {
    const LaunchTimer timer("kernel", "a", a_);
    work(a_);
  }
  {
    const LaunchTimer timer("kernel", "b", b_);
    work(b_, 2 * kWork);
  }
  backend(kDevice).synchronize(b_);  // and only then waits for a
  EXPECT_GE(seconds(profile, "a"), kWork);
  EXPECT_GE(seconds(profile, "b"), 2 * kWork);
  EXPECT_LE(seconds(profile), watch.seconds());
}

TEST_F(CudaLaunchProfile, LosesNothingOfManyLaunches) {
  constexpr int kLaunches = 10'000;
  const Stopwatch watch;
  const LaunchProfile profile;
  const auto run = [&] {
    for (int i = 0; i < kLaunches; ++i) {
      const LaunchTimer timer("kernel", "a", a_);
      emulation::submit(a_.native, [] {
        for (const Stopwatch each; each.seconds() < 5e-6;) continue;
      });
    }
  };
  run();  // what is done makes room
  {
    const Deferred deferred;
    run();  // nothing is, until entries() waits
    ASSERT_EQ(profile.entries().size(), 1U);
  }
  EXPECT_EQ(profile.entries()[0].launches, 2 * kLaunches);
  EXPECT_GE(seconds(profile), 2 * kLaunches * 5e-6);
  EXPECT_LE(seconds(profile), watch.seconds());
}

TEST_F(CudaLaunchProfile, DoesNotTimeWhatIsCaptured) {
  const LaunchProfile profile;
  const auto captured = backend(kDevice).capture([&] {
    const Stream stream = current_stream(kDevice);
    const LaunchTimer timer("kernel", "a", stream);
    work(stream);
  });
  captured->launch(a_);
  backend(kDevice).synchronize(a_);
  const auto entries = profile.entries();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].launches, 1);
  EXPECT_EQ(entries[0].seconds, 0);
}

TEST_F(CudaLaunchProfile, ReportsWhatFailedOnTheDevice) {
  const Deferred deferred;
  const LaunchProfile profile;
  {
    const LaunchTimer timer("kernel", "a", a_);
    emulation::submit(a_.native, [] { throw KernelError("made up", "failed"); });
  }
  EXPECT_THROW(static_cast<void>(profile.entries()), KernelError);
}

}  // namespace
}  // namespace ingot::kernels::cuda
