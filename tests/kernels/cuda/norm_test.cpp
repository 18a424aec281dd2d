#include "ingot/kernels/norm.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/kernels/scratch.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"

// What the ops never ask of the norms: operands that are misaligned one by one, any choice of gradients, no
// rows at all. Against the CPU's.
namespace ingot {
namespace {

using test::kDevice;
using testing::max_error;
using testing::randn;

struct NormCase {
  bool layer = false;
  Shape shape;
  DType dtype = DType::f32;
  std::string_view odd = {};  // the operand that begins one element behind an aligned address
};

std::string describe(const NormCase& c) {
  return std::string(c.layer ? "layer norm " : "rms norm ") + to_string(c.shape) + " " +
         std::string(name(c.dtype)) + (c.odd.empty() ? "" : ", misaligned: " + std::string(c.odd));
}

/// Random operands of a case on a device, outputs too: what is there is added to, or else overwritten.
class NormOperands {
 public:
  NormOperands(const NormCase& c, Device device) : case_(c), device_(device) {}

  Tensor rows(std::string_view name, std::uint64_t seed) const { return make(name, case_.shape, seed); }
  Tensor columns(std::string_view name, std::uint64_t seed) const {
    return make(name, {case_.shape.back()}, seed);
  }
  Tensor each_row(float value) const { return to(testing::filled({case_.shape[0]}, value), device_); }
  Tensor partials() const {
    return Tensor::empty({kernels::scratch_parts(device_), case_.layer ? 2 : 1, case_.shape.back()},
                         DType::f32, device_);
  }

 private:
  Tensor make(std::string_view name, const Shape& shape, std::uint64_t seed) const {
    const std::int64_t skip = name == case_.odd ? 1 : 0;
    return reshape(slice(to(randn({shape.numel() + skip}, seed, case_.dtype), device_), 0, skip), shape);
  }

  NormCase case_;
  Device device_;
};

std::vector<Tensor> norm(const NormCase& c, bool residual, Device device) {
  const NormOperands make(c, device);
  const Tensor x = make.rows("x", 1), weight = make.columns("weight", 2), y = make.rows("y", 4),
               mean = make.each_row(0), rstd = make.each_row(0), added = make.rows("residual", 5),
               sum = make.rows("sum", 6);
  const View none;
  if (c.layer) {
    const Tensor bias = make.columns("bias", 3);
    launch(kernels::layer_norm, current_stream(device),
           {.x = x.view(),
            .weight = weight.view(),
            .bias = bias.view(),
            .y = y.view(),
            .mean = mean.view(),
            .rstd = rstd.view(),
            .eps = 1e-5F,
            .residual = residual ? added.view() : none,
            .sum = residual ? sum.view() : none});
  } else {
    launch(kernels::rms_norm, current_stream(device),
           {.x = x.view(),
            .weight = weight.view(),
            .y = y.view(),
            .rstd = rstd.view(),
            .eps = 1e-5F,
            .residual = residual ? added.view() : none,
            .sum = residual ? sum.view() : none});
  }
  return {to(y, kCpu), to(sum, kCpu), to(mean, kCpu), to(rstd, kCpu)};
}

void expect_equal(const std::vector<Tensor>& found, const std::vector<Tensor>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_LE(max_error(found[i], expected[i]), tolerance) << "result " << i;
}

TEST(CudaNorm, HoldsWithAnyOneOperandMisaligned) {
  for (const Shape& shape : {Shape{19, 64}, Shape{3, 1032}}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const bool layer : {false, true}) {
        for (const std::string_view odd : {"x", "weight", "bias", "y", "residual", "sum"}) {
          const NormCase c{.layer = layer, .shape = shape, .dtype = dtype, .odd = odd};
          SCOPED_TRACE(describe(c));
          expect_equal(norm(c, true, kDevice), norm(c, true, kCpu), dtype == DType::f32 ? 1e-5 : 1e-2);
        }
      }
    }
  }
}

struct Wanted {
  bool dx = true, dweight = true, dbias = true;
  bool accumulate_dx = false, accumulate_dweight = false, accumulate_dbias = false;
};

std::string describe(const Wanted& w) {
  const auto one = [](const char* name, bool wanted, bool accumulate) {
    return std::string(wanted ? accumulate ? " += " : " = " : " without ") + name;
  };
  return one("dx", w.dx, w.accumulate_dx) + one("dweight", w.dweight, w.accumulate_dweight) +
         one("dbias", w.dbias, w.accumulate_dbias);
}

std::vector<Tensor> norm_gradients(const NormCase& c, const Wanted& w, Device device) {
  const NormOperands make(c, device);
  const Tensor x = make.rows("x", 1), dy = make.rows("dy", 2), weight = make.columns("weight", 3),
               mean = make.each_row(0.1F), rstd = make.each_row(0.9F), dx = make.rows("dx", 4),
               dweight = make.columns("dweight", 5), dbias = make.columns("dbias", 6),
               partials = make.partials();
  const View none;
  if (c.layer) {
    launch(kernels::layer_norm_backward, current_stream(device),
           {.x = x.view(),
            .weight = weight.view(),
            .mean = mean.view(),
            .rstd = rstd.view(),
            .dy = dy.view(),
            .dx = w.dx ? dx.view() : none,
            .dweight = w.dweight ? dweight.view() : none,
            .dbias = w.dbias ? dbias.view() : none,
            .partials = w.dweight || w.dbias ? partials.view() : none,
            .accumulate_dx = w.accumulate_dx,
            .accumulate_dweight = w.accumulate_dweight,
            .accumulate_dbias = w.accumulate_dbias});
  } else {
    launch(kernels::rms_norm_backward, current_stream(device),
           {.x = x.view(),
            .weight = weight.view(),
            .rstd = rstd.view(),
            .dy = dy.view(),
            .dx = w.dx ? dx.view() : none,
            .dweight = w.dweight ? dweight.view() : none,
            .partials = w.dweight ? select(partials, 1, 0).view() : none,
            .weight_offset = 1.0F,
            .accumulate_dx = w.accumulate_dx,
            .accumulate_dweight = w.accumulate_dweight});
  }
  return {to(dx, kCpu), to(dweight, kCpu), to(dbias, kCpu)};
}

void expect_same_gradients(const NormCase& c, const Wanted& w) {
  SCOPED_TRACE(describe(c) + describe(w));
  expect_equal(norm_gradients(c, w, kDevice), norm_gradients(c, w, kCpu),
               c.dtype == DType::f32 ? 1e-5 : 1e-2);
}

/// Rows of every kernel config: held by a part of a warp, by a block, by nobody; in vectors, and not.
const std::vector<Shape> kNormShapes = {{19, 64}, {3, 1032}, {7, 33}, {3, 1031}, {2, 16400}};

TEST(CudaNorm, GradientsHoldWithAnyOneOperandMisaligned) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool layer : {false, true}) {
      for (const Shape& shape : {Shape{19, 64}, Shape{3, 1032}}) {
        for (const std::string_view odd : {"x", "dy", "weight", "dx", "dweight", "dbias"}) {
          for (const bool accumulate : {false, true}) {
            expect_same_gradients({.layer = layer, .shape = shape, .dtype = dtype, .odd = odd},
                                  {.accumulate_dx = accumulate});
          }
        }
      }
    }
  }
}

// Of which nothing is left out: such rows have kernels of their own.
TEST(CudaNorm, GradientsHoldForRowsThatFillTheirForm) {
  for (const std::int64_t threads : {64, 128, 256, 512}) {
    for (const auto& [dtype, vec] : {std::pair{DType::f32, 4}, {DType::bf16, 8}, {DType::f16, 8}}) {
      const NormCase c{.shape = {3, threads * 4 * vec}, .dtype = dtype};
      expect_same_gradients(c, {.accumulate_dx = true});
      expect_same_gradients(c, {.accumulate_dx = true, .accumulate_dweight = true});
      expect_same_gradients(c, {.dweight = false, .accumulate_dx = true});
      expect_same_gradients(c, {.dx = false, .accumulate_dx = true});
    }
  }
}

TEST(CudaNorm, EachGradientMayBeAbsentAndEachAddedTo) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const bool layer : {false, true}) {
      for (const Shape& shape : kNormShapes) {
        const NormCase c{.layer = layer, .shape = shape, .dtype = dtype};
        for (const bool all : {false, true}) {  // others are added to, or only this one
          expect_same_gradients(c,
                                {.accumulate_dx = true, .accumulate_dweight = all, .accumulate_dbias = all});
          expect_same_gradients(c,
                                {.accumulate_dx = all, .accumulate_dweight = true, .accumulate_dbias = all});
          expect_same_gradients(c,
                                {.accumulate_dx = all, .accumulate_dweight = all, .accumulate_dbias = true});
          expect_same_gradients(c, {.dx = false, .accumulate_dx = all});
          expect_same_gradients(c, {.dweight = false, .accumulate_dbias = all});
          expect_same_gradients(c, {.dbias = false, .accumulate_dweight = all});
          expect_same_gradients(c, {.dweight = false, .dbias = false, .accumulate_dx = all});
        }
      }
    }
  }
}

TEST(CudaNorm, OfNoRowsTheGradientsOfWeightsAreZerosOrAsTheyWere) {
  for (const bool layer : {false, true})
    for (const bool accumulate : {false, true})
      expect_same_gradients({.layer = layer, .shape = {0, 64}},
                            {.accumulate_dweight = accumulate, .accumulate_dbias = accumulate});
}

}  // namespace
}  // namespace ingot
