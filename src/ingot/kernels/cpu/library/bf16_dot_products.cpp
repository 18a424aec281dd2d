#include "ingot/kernels/bf16_dot_products.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <vector>

#include <dnnl.hpp>
#include <fmt/format.h>

#include "ingot/base/env.h"
#include "ingot/base/log.h"
#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/kernels/cpu/library/onednn.h"
#include "ingot/kernels/cpu/library/onednn_matmul.h"

namespace ingot::kernels {
namespace {

/// A matmul of a linear layer with a weight [n, k], of zeros: no processor is slower with other numbers.
class Sample {
 public:
  explicit Sample(DType dtype)
      : matmul_({.m = kRows, .n = kSide, .k = kSide}, {{'N', kSide}, {'T', kSide}, kSide},
                {.operands = dtype, .result = dtype}) {}

  double seconds() {
    const Stopwatch watch;
    matmul_.run(a_.data(), b_.data(), nullptr, c_.data());
    return watch.seconds();
  }

 private:
  static constexpr std::int64_t kRows = 64, kSide = 256;
  cpu::OnednnMatmul matmul_;
  std::vector<float> a_ = std::vector<float>(kRows * kSide), b_ = std::vector<float>(kSide * kSide), c_ = a_;
};

// In turns, and the fastest of each, which take some 0.1 ms: what else the machine does then interrupts few.
bool measure() {
  constexpr int kTurns = 20;
  // Widening and rounding cost f32 some 10 %. Processors are at 0.5 to 0.6 or at 1.8 and more, so that two
  // processes on one machine choose the same.
  constexpr double kClearly = 0.8;
  const OneThread alone;  // several would wait for the one that is interrupted
  Sample direct(DType::bf16), widened(DType::f32);
  double bf16 = std::numeric_limits<double>::infinity(), f32 = bf16;
  for (int turn = 0; turn < kTurns; ++turn) {
    bf16 = std::min(bf16, direct.seconds());
    f32 = std::min(f32, widened.seconds());
  }
  const bool use = f32 >= kClearly * bf16;
  log(LogLevel::debug, "ingot::kernels",
      fmt::format("large matmuls of bf16 {}: dot products of bf16 reach {:.2f} of the rate of f32",
                  use ? "take dot products" : "are widened to f32", f32 / bf16));
  return use;
}

bool choose() {
  // Environment: INGOT_BF16_DOT_PRODUCTS=1 (0) | large matmuls of bf16 take the processor's dot products of
  // bf16 (are widened to f32), whatever a measurement at the first one says; for the same bits on processors
  // of several kinds
  if (const auto chosen = env_flag("BF16_DOT_PRODUCTS")) return *chosen;
  return measure();
}

bool refuse() {
  if (env_flag("BF16_DOT_PRODUCTS").value_or(false))
    log(LogLevel::warn, "ingot::kernels",
        "INGOT_BF16_DOT_PRODUCTS is 1, but this processor has no dot products of bf16 (AVX512-BF16 or AMX): "
        "large matmuls of bf16 are widened to f32; set it to 0 on all processors for the same bits");
  return false;
}

std::atomic<int>& forced() {
  static std::atomic<int> value{-1};
  return value;
}

}  // namespace

bool use_bf16_dot_products() {
  if (!cpu::onednn_has_bf16()) {
    static const bool refused = refuse();
    return refused;
  }
  if (const int use = forced().load(std::memory_order_relaxed); use >= 0) return use != 0;
  static const bool chosen = choose();
  return chosen;
}

void set_bf16_dot_products(std::optional<bool> use) { forced() = use ? static_cast<int>(*use) : -1; }

}  // namespace ingot::kernels
