#include "ingot/kernels/launch_profile.h"

#include <chrono>
#include <string_view>
#include <thread>

#include <gtest/gtest.h>

#include "ingot/core/tensor.h"
#include "ingot/ops/elementwise.h"

namespace ingot::kernels {
namespace {

const LaunchProfile::Entry* find(const std::vector<LaunchProfile::Entry>& entries, std::string_view kernel) {
  for (const auto& entry : entries)
    if (entry.kernel == kernel) return &entry;
  return nullptr;
}

TEST(LaunchProfile, CountsTheLaunchesOfItsThreadWhileItLives) {
  const Tensor x = Tensor::zeros({64});
  static_cast<void>(x + x);
  const LaunchProfile profile;
  for (int i = 0; i < 3; ++i) static_cast<void>(x + x);
  std::thread([&x] { static_cast<void>(x + x); }).join();
  {
    const LaunchProfile inner;
    static_cast<void>(x + x);
    const auto inside = inner.entries();
    ASSERT_EQ(inside.size(), 1U);
    EXPECT_EQ(inside[0].launches, 1);
  }
  const auto entries = profile.entries();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].launches, 3);
  EXPECT_GE(entries[0].seconds, 0);
  EXPECT_NE(std::string_view(entries[0].implementation), "");
}

TEST(LaunchProfile, ListsWhatTookLongestFirst) {
  LaunchProfile profile;
  profile.add("short", "a", 1);
  profile.add("long", "a", 1);
  profile.add("long", "a", 2);
  profile.add("long", "b", 0.5);
  const auto entries = profile.entries();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(std::string_view(entries[0].kernel), "long");
  EXPECT_EQ(entries[0].launches, 2);
  EXPECT_EQ(entries[0].seconds, 3);
  EXPECT_EQ(find(entries, "short")->launches, 1);
  EXPECT_EQ(LaunchProfile::current(), &profile);
}

TEST(LaunchProfile, CountsAKernelWithoutThoseThatItLaunches) {
  const LaunchProfile profile;
  {
    const LaunchTimer outer("outer", "a");
    for (int i = 0; i < 2; ++i) {
      const LaunchTimer inner("inner", "a");
      const LaunchTimer innermost("innermost", "a");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  const auto entries = profile.entries();
  const double pauses = find(entries, "innermost")->seconds;
  EXPECT_GE(pauses, 0.040);
  EXPECT_LT(find(entries, "inner")->seconds, pauses / 2);
  EXPECT_LT(find(entries, "outer")->seconds, pauses / 2);
}

}  // namespace
}  // namespace ingot::kernels
