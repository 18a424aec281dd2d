#include "ingot/train/language/step_matmuls.h"

#include "tests/kernels/cuda/device.h"
#include "tests/train/language/matmul_launches.h"
#include <gtest/gtest.h>

namespace ingot {
namespace {

using test::kDevice;
using test::matmul_config;

TEST(DeviceStepMatmuls, AreLaunchedAsOftenAndByTheSameKernelsAsInAStep) {
  for (const std::string family : {"llama", "qwen3", "gpt2", "gemma2"}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const LanguageConfig config = matmul_config(family, dtype);
      const test::MatmulLaunches expected = test::launches_of_a_step(config, kDevice);
      EXPECT_FALSE(expected.empty());
      EXPECT_EQ(test::launches_of_matmuls(config, kDevice), expected) << family << " " << name(dtype);
    }
  }
}

TEST(DeviceStepMatmuls, TheHeadHasTheClassesOfZerosOfTheLoss) {
  const StepMatmuls work(matmul_config("llama", DType::bf16), 48, kDevice);
  std::int64_t heads = 0;
  for (const StepMatmul& p : work.matmuls()) heads += p.out == 128 ? 1 : 0;  // 70 classes
  EXPECT_EQ(heads, 3);
}

TEST(DeviceStepMatmuls, SustainedWorkIsTimedByTheDevicesClock) {
  const StepMatmuls work(matmul_config("llama", DType::bf16), 48, kDevice);
  const auto samples = work.sustain(0.1, [](const StepMatmuls::Sample&) {});
  ASSERT_FALSE(samples.empty());
  double flops = 0, end = 0;
  for (const auto& sample : samples) {
    EXPECT_EQ(sample.begin, end);
    EXPECT_GT(sample.end, sample.begin);
    end = sample.end;
    flops += sample.flops;
  }
  EXPECT_GE(end, 0.1);
  EXPECT_EQ(flops, static_cast<double>(samples.back().steps) * work.flops());
  const std::vector<double> each = work.time_each(0);
  ASSERT_EQ(each.size(), work.matmuls().size());
  for (const double seconds : each) EXPECT_GT(seconds, 0);
}

}  // namespace
}  // namespace ingot
