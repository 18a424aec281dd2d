#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/kernels/cuda/runtime/driver.h"
#include "ingot/kernels/loss.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// Rows of logits that a block has in shared memory, those of which registers hold the beginning, and longer
// ones. Where shared memory ends differs among GPUs; the widths here are those of 227 KB and of 99 KB.
namespace ingot {
namespace {

using test::kDevice;
using testing::filled;
using testing::max_error;
using testing::randn;

constexpr Device kSecond{DeviceType::cuda, 1};

struct Outcome {
  Tensor loss, lse, dlogits;  // dlogits has the rows' whole width
};

/// Gradients large enough for f16, so that each can be held against what it ought to be.
constexpr float kDenominator = 1.0F / 16384;

/// Of the first `n` elements of rows that are `logits` wide, into `dlogits` of the same width.
Outcome run(const Tensor& logits, std::int64_t n, const std::vector<std::int64_t>& targets,
            const Tensor& dlogits) {
  const Device device = logits.device();
  const std::int64_t rows = logits.dim(0);
  const Tensor goal = Tensor::from(targets, {rows}, device);
  const Tensor denominator = Tensor::from(std::vector<float>{kDenominator}, {1}, device);
  const Outcome result{to(filled({rows}, NAN), device), to(filled({rows}, NAN), device), dlogits};
  launch(kernels::cross_entropy, current_stream(device),
         {.logits = narrow(logits, 1, 0, n).view(),
          .targets = goal.view(),
          .loss = result.loss.view(),
          .lse = result.lse.view(),
          .dlogits = narrow(dlogits, 1, 0, n).view(),
          .denominator = denominator.view(),
          .options = {.z_loss = 1e-3F}});
  return result;
}

Tensor poison(const Tensor& like) { return to(to(filled(like.shape(), NAN), like.dtype()), like.device()); }
std::vector<float> floats(const Tensor& x) {
  return to(to(contiguous(x), kCpu), DType::f32).to_vector<float>();
}

/// The largest error of an element, against its own magnitude.
double relative_error(const Tensor& found, const Tensor& expected) {
  const std::vector<float> a = floats(found), b = floats(expected);
  double worst = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const double error = std::abs(double{a[i]} - b[i]) / std::max(std::abs(double{b[i]}), 1e-30);
    if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
  }
  return worst;
}

/// Rounding to `dtype`, and 2e-5 for the sum and e^x.
double tolerance(DType dtype) {
  return 2e-5 + (dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0.0);
}

/// In the first element and the last, on either side of where registers may end, elsewhere, and none.
std::vector<std::int64_t> some_targets(std::int64_t rows, std::int64_t n, DType dtype) {
  const std::int64_t batch = 16384 / static_cast<std::int64_t>(byte_size(dtype));
  const std::vector<std::int64_t> all{0,     n - 1,     -100,          2 * batch - 1, 2 * batch,
                                      n / 2, batch + 7, 6 * batch - 1, 6 * batch,     n - 2};
  std::vector<std::int64_t> targets;
  for (std::int64_t row = 0; row < rows; ++row)
    targets.push_back(std::min(all[static_cast<std::size_t>(row) % all.size()], n - 1));
  return targets;
}

void expect_the_cpus_results(Device device, DType dtype, std::int64_t rows, std::int64_t n) {
  SCOPED_TRACE(to_string(device) + " " + std::string(name(dtype)) + " " + std::to_string(n));
  const std::int64_t width = n / 64 * 64 + 64;
  const Tensor logits = randn({rows, width}, 7, dtype), on_device = to(logits, device);
  const std::vector<std::int64_t> targets = some_targets(rows, n, dtype);
  const Outcome expected = run(to(logits, DType::f32), n, targets, Tensor::zeros(logits.shape(), DType::f32));
  const Outcome apart = run(on_device, n, targets, poison(on_device));
  EXPECT_EQ(max_error(on_device, logits), 0.0) << "logits were written";
  const std::vector<float> lse = floats(apart.lse), expected_lse = floats(expected.lse);
  for (std::size_t row = 0; row < lse.size(); ++row) {
    if (targets[row] == -100) continue;  // of ignored rows the CPU tells none
    EXPECT_NEAR(lse[row], expected_lse[row], 2e-5);
  }
  EXPECT_LE(max_error(apart.loss, expected.loss), 2e-5);
  EXPECT_LE(relative_error(narrow(apart.dlogits, 1, 0, n), narrow(expected.dlogits, 1, 0, n)),
            tolerance(dtype));

  const Outcome over = run(on_device, n, targets, on_device);
  EXPECT_EQ(floats(over.lse), floats(apart.lse));
  EXPECT_EQ(floats(over.loss), floats(apart.loss));
  EXPECT_EQ(floats(narrow(over.dlogits, 1, 0, n)), floats(narrow(apart.dlogits, 1, 0, n)));
  EXPECT_EQ(max_error(narrow(over.dlogits, 1, n, width - n), narrow(logits, 1, n, width - n)), 0.0)
      << "what lies between rows was written";
}

struct Rows {
  std::int64_t rows, n;
};

// 115712 elements of two bytes are the most in 226 KB, 16384 more with two batches in registers, 49152 with
// six. A multiprocessor has one block, so each block has several rows where there are `many`.
TEST(CudaLongRows, CrossEntropyEqualsTheCpu) {
  const std::int64_t many = 2 * kernels::cuda::driver::properties(kDevice.index).multiprocessors + 1;
  for (const auto& [rows, n] :
       {Rows{5, 115712}, Rows{5, 115720}, Rows{many, 128256}, Rows{1, 128251}, Rows{2, 132096},
        Rows{5, 132097}, Rows{many, 151936}, Rows{6, 151931}, Rows{2, 164864}, Rows{2, 164872}})
    expect_the_cpus_results(kDevice, DType::bf16, rows, n);
  for (const auto& [rows, n] : {Rows{9, 128256}, Rows{9, 151929}})
    expect_the_cpus_results(kDevice, DType::f16, rows, n);
  for (const auto& [rows, n] :
       {Rows{5, 57856}, Rows{9, 57857}, Rows{3, 66048}, Rows{9, 66052}, Rows{5, 75967}, Rows{2, 82436}})
    expect_the_cpus_results(kDevice, DType::f32, rows, n);
}

// So that fewer batches are in shared memory than in registers, too.
TEST(CudaLongRows, CrossEntropyEqualsTheCpuWhereSharedMemoryIsSmall) {
  if (BackendRegistry::instance().find(kSecond) == nullptr) GTEST_SKIP() << "there is no second device";
  for (const std::int64_t n : {50176, 50179, 66560, 66561, 80000, 99328, 99336})
    expect_the_cpus_results(kSecond, DType::bf16, 5, n);
  for (const std::int64_t n : {25090, 33281}) expect_the_cpus_results(kSecond, DType::f32, 5, n);
}

// Rows that do not begin where vectors may are read twice by a kernel that has none of them.
TEST(CudaLongRows, CrossEntropyOfInfinitiesAndNansIsThatOfOtherForms) {
  for (const auto& [dtype, n] :
       {std::pair{DType::bf16, std::int64_t{128251}}, {DType::bf16, 151936}, {DType::f32, 64126}}) {
    const std::int64_t rows = 9, width = n / 64 * 64 + 64;
    std::vector<float> values = randn({rows, width}, 3).to_vector<float>();
    const auto row = [&](std::int64_t i) { return values.begin() + i * width; };
    row(0)[0] = NAN;
    row(1)[n - 1] = NAN;
    row(2)[n / 2] = INFINITY;
    row(3)[5000] = INFINITY;
    std::fill(row(4), row(4) + n - 1, -INFINITY);
    std::fill(row(5), row(5) + n, -INFINITY);
    std::fill(row(6), row(6) + n / 2, -INFINITY);
    row(7)[0] = NAN;
    const std::vector<std::int64_t> targets{3, 4, n / 2, 0, n - 1, 7, n - 1, -100, n};
    const Tensor logits = to(to(Tensor::from(values, {rows, width}), dtype), kDevice);
    const Tensor moved = reshape(
        narrow(poison(Tensor::empty({rows * width + 1}, dtype, kDevice)), 0, 1, rows * width), {rows, width});
    copy_(moved, logits);
    const Outcome found = run(logits, n, targets, poison(logits));
    const Outcome expected = run(moved, n, targets, poison(logits));
    const auto compare = [&](const Tensor& a, const Tensor& b, double tolerance) {
      const std::vector<float> one = floats(a), other = floats(b);
      for (std::size_t i = 0; i < one.size(); ++i) {
        if (std::isnan(other[i]) ? std::isnan(one[i]) : one[i] == other[i]) continue;
        ASSERT_LE(std::abs(one[i] - other[i]), tolerance * std::abs(other[i]))
            << name(dtype) << " " << n << " element " << i;
      }
    };
    compare(found.loss, expected.loss, 1e-5);
    compare(found.lse, expected.lse, 1e-5);
    compare(narrow(found.dlogits, 1, 0, n), narrow(expected.dlogits, 1, 0, n), 2 * tolerance(dtype));
  }
}

}  // namespace
}  // namespace ingot
