#include <gtest/gtest.h>

#include "ingot/kernels/cuda/register.h"

namespace ingot::kernels::cuda {
namespace {

TEST(Gpus, ThoseBeforeAmpereAreLeftOutAndNamed) {
  EXPECT_EQ(unsupported({.name = "NVIDIA T4", .major = 7, .minor = 5}),
            "NVIDIA T4 has compute capability 7.5; 8.0 (Ampere) or newer is needed, for bf16");
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {9, 0}, {12, 1}})
    EXPECT_EQ(unsupported({.name = "newer", .major = major, .minor = minor}), "");
}

}  // namespace
}  // namespace ingot::kernels::cuda
