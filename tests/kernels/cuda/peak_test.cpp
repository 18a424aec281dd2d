#include "ingot/kernels/cuda/runtime/peak.h"

#include <gtest/gtest.h>

namespace ingot::kernels::cuda {
namespace {

TEST(DensePeak, KnowsGpusByTheirNames) {
  EXPECT_EQ(dense_peak("NVIDIA H200", DType::bf16), 989.4e12);
  EXPECT_EQ(dense_peak("NVIDIA H100 80GB HBM3", DType::f16), 989.4e12);
  EXPECT_EQ(dense_peak("NVIDIA H100 PCIe", DType::bf16), 756e12);
  EXPECT_EQ(dense_peak("NVIDIA A100-SXM4-80GB", DType::bf16), 312e12);
  EXPECT_EQ(dense_peak("NVIDIA A100-SXM4-80GB", DType::f32), 19.5e12);
  EXPECT_EQ(dense_peak("NVIDIA L4", DType::bf16), 121e12);
}

TEST(DensePeak, DoesNotGuess) {
  for (const char* name :
       {"emulated CUDA device (tests only)", "NVIDIA RTX A1000", "NVIDIA RTX A4000", "NVIDIA L40", ""})
    EXPECT_EQ(dense_peak(name, DType::bf16), 0) << name;
  EXPECT_EQ(dense_peak("NVIDIA H200", DType::f64), 0);
}

}  // namespace
}  // namespace ingot::kernels::cuda
