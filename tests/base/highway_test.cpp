#include <cstdint>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <hwy/targets.h>

namespace ingot {
namespace {

#if HWY_ARCH_X86
/// Whether the kernel lists the processor's instruction under this name.
bool listed(const std::string& flag) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("flags")) return (line + " ").find(" " + flag + " ") != std::string::npos;
  }
  return false;
}

TEST(Highway, TargetsAreThoseOfTheProcessor) {
  const std::int64_t targets = hwy::SupportedTargets();
  const bool avx2 = listed("avx2") && listed("fma") && listed("bmi2") && listed("f16c") && listed("aes");
  EXPECT_EQ((targets & HWY_AVX2) != 0, avx2);
  EXPECT_EQ((targets & HWY_AVX3) != 0, avx2 && listed("avx512f") && listed("avx512vl") && listed("avx512bw"));
}
#endif

TEST(Highway, ADisabledTargetIsNotChosenAndOneIsAlwaysLeft) {
  const std::int64_t all = hwy::SupportedTargets();
  const std::int64_t best = all & -all;
  hwy::DisableTargets(best);
  EXPECT_EQ(hwy::SupportedTargets(), all == best ? HWY_STATIC_TARGET : all & ~best);
  EXPECT_FALSE(hwy::GetChosenTarget().IsInitialized());
  hwy::DisableTargets(~std::int64_t{0});
  EXPECT_EQ(hwy::SupportedTargets(), HWY_STATIC_TARGET);
  hwy::DisableTargets(0);
  EXPECT_EQ(hwy::SupportedTargets(), all);
}

}  // namespace
}  // namespace ingot
