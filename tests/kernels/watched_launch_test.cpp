#include "ingot/kernels/watched_launch.h"

#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "tests/support/trace_file.h"
#include <gtest/gtest.h>

#include "ingot/base/trace.h"
#include "ingot/core/tensor.h"
#include "ingot/ops/attention.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/matmul.h"

namespace ingot::kernels {
namespace {

TEST(WatchedLaunch, TheTraceShowsAKernelInItsOpWithOperandsBytesAndFlops) {
  const test::TemporaryDirectory folder;
  const Tensor x = Tensor::zeros({8, 64}), weight = Tensor::zeros({32, 64});
  Trace trace(folder.at("trace.json"));
  static_cast<void>(linear(x, weight));
  trace.finish();
  const test::TraceFile file = test::read_trace(folder.at("trace.json"));
  EXPECT_EQ(file.count({"op linear", "kernel gemm"}), 1);
  const auto& args = file.find("kernel", "gemm")->args;
  EXPECT_EQ(args.at("a"), "f32[8,64]");
  EXPECT_EQ(args.at("b"), "f32[64,32]");
  EXPECT_EQ(args.at("c"), "f32[8,32]");
  EXPECT_EQ(args.at("flops"), 2 * 8 * 64 * 32);
  EXPECT_EQ(args.at("bytes"), 4 * (8 * 64 + 64 * 32 + 8 * 32));
  EXPECT_FALSE(args.at("implementation").get<std::string>().empty());
  EXPECT_EQ(file.counters, std::set<std::string>{"memory cpu (bytes)"});
}

TEST(WatchedLaunch, CausalAttentionCountsHalfOfTheScores) {
  class Flops final : public LaunchObserver {
   public:
    bool launching(const Launch& launch) override {
      sum += launch.work.flops;
      return true;
    }
    double sum = 0;
  };
  const Tensor q = Tensor::zeros({2, 16, 4, 8});
  Flops all, half;
  AttentionOptions options;
  options.causal = false;
  {
    Flops whole;
    static_cast<void>(attention(q, q, q, options));
    EXPECT_EQ(whole.sum, 4.0 * 2 * 4 * 16 * 16 * 8);
  }
  options.causal = true;
  static_cast<void>(attention(q, q, q, options));
  EXPECT_EQ(half.sum, 2.0 * 2 * 4 * 16 * 16 * 8);
  EXPECT_EQ(all.sum, 0) << "the last observer made counts";
}

TEST(WatchedLaunch, AnObserverSeesLaunchesOfItsThreadAndCanKeepThemFromRunning) {
  class DryRun final : public LaunchObserver {
   public:
    bool launching(const Launch& launch) override {
      kernels.emplace_back(launch.kernel);
      return false;
    }
    std::vector<std::string> kernels;
  };
  const Tensor x = Tensor::from(std::vector<float>{1, 2}, {2});
  const Tensor y = Tensor::from(std::vector<float>{7, 7}, {2});
  {
    DryRun run;
    add_(y, x);
    EXPECT_EQ(run.kernels.size(), 1U);
  }
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{7, 7}));
  add_(y, x);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{8, 9}));
}

}  // namespace
}  // namespace ingot::kernels
