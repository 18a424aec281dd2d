#include "ingot/quant/group_matrix.h"

#include <cmath>

#include "tests/quant/helpers.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/rng.h"
#include "ingot/kernels/quantized.h"
#include "ingot/quant/linear.h"
#include "ingot/quant/packed_checkpoints.h"
#include "ingot/weights/open.h"

namespace ingot::quant {
namespace {

using test::all_rows;
using test::expect_message;
using test::message_of;
using test::random;

double relative_error(const Tensor& a, const Tensor& b) {
  double error = 0, power = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    error += std::pow(a.data<float>()[i] - b.data<float>()[i], 2);
    power += std::pow(b.data<float>()[i], 2);
  }
  return std::sqrt(error / power);
}

// Packed, the matrix has the same values, and matmuls with it the reference's bits on every instruction set.
void expect_packs_exactly(const GroupMatrix& matrix) {
  const PackedPtr packed = pack(matrix);
  EXPECT_EQ(all_rows(*packed).to_vector<float>(), matrix.dequantize().to_vector<float>());
  for (const std::int64_t m : {1, 14}) {
    const Activations x(random({m, matrix.cols}, 5));
    const kernels::PackedLayout layout = kernels::packed_layout(packed->format);
    const Tensor codes = x.rounded(layout.steps(matrix.cols) * layout.step_blocks, packed->order);
    std::vector<float> expected;
    const auto& list = kernels::quantized_matmul.implementations(DeviceType::cpu);
    for (auto i = list.rbegin(); i != list.rend(); ++i) {
      if (i->needs > kernels::best_instruction_set()) continue;
      Tensor y = Tensor::empty({m, matrix.rows});
      i->run({.format = packed->format, .x = codes.view(), .weight = packed->data.view(), .y = y.view()}, {});
      if (expected.empty()) expected = y.to_vector<float>();
      EXPECT_EQ(y.to_vector<float>(), expected) << i->name << " " << packed->format_name();
    }
    EXPECT_EQ(linear(x, *packed).to_vector<float>(), expected);
  }
}

TEST(GroupMatrix, RoundsWithinItsBitsAndPacksExactly) {
  struct Case {
    GroupOptions options;
    std::int64_t cols;
    double most;
  };
  const std::vector<Case> cases{{{.bits = 4, .group = 32}, 256, 0.105},
                                {{.bits = 4, .group = 64}, 192, 0.115},
                                {{.bits = 4, .group = 128}, 384, 0.13},
                                {{.bits = 4, .group = 32, .symmetric = false}, 96, 0.09},
                                {{.bits = 4, .group = 128, .symmetric = false}, 512, 0.115},
                                {{.bits = 4, .group = 0}, 100, 0.15},
                                {{.bits = 8, .group = 64}, 256, 0.0075},
                                {{.bits = 8, .group = 0}, 100, 0.01}};
  for (const Case& c : cases) {
    const Tensor w = random({21, c.cols}, 1);
    const GroupMatrix m = GroupMatrix::quantize(w, c.options);
    const double error = relative_error(m.dequantize(), w);
    EXPECT_LT(error, c.most) << c.options.bits << " bits, groups of " << c.options.group;
    EXPECT_GT(error, c.most / 2);
    expect_packs_exactly(m);
  }
}

TEST(GroupMatrix, TernaryWeightsAreMinusOneZeroOrOneTimesTheMeanMagnitude) {
  const Tensor w = random({18, 300}, 1);
  const GroupMatrix m = GroupMatrix::quantize_ternary(w);
  double mean = 0;
  for (std::int64_t i = 0; i < w.numel(); ++i)
    mean += std::abs(w.data<float>()[i]) / static_cast<double>(w.numel());
  for (const float v : m.dequantize().to_vector<float>())
    EXPECT_TRUE(v == 0 || std::abs(std::abs(v) - mean) < mean * 1e-3) << v;
  expect_packs_exactly(m);
}

TEST(PackedCheckpoints, GptqAndAwqLayoutsHaveTheirPublishedValues) {
  const auto file = open_weights(test::source_dir() + "/tests/quant/goldens/layouts.safetensors");
  const auto get = [&](const std::string& name) { return file->load_tensor(name); };
  for (const std::string kind : {"plain", "act_order"}) {
    const std::string at = "gptq." + kind + ".";
    const GroupMatrix m =
        from_gptq({get(at + "qweight"), get(at + "qzeros"), get(at + "scales"), get(at + "g_idx")}, at);
    EXPECT_EQ(m.order.defined(), kind == "act_order");
    EXPECT_EQ(m.dequantize().to_vector<float>(), get(at + "values").to_vector<float>());
    expect_packs_exactly(m);
    const Tensor x = random({3, 64}, 2);  // the order is undone: the matmul is that of the values
    double error = 0;
    const Tensor y = linear(x, *pack(m)), w = get(at + "values");
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t n = 0; n < 16; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < 64; ++k)
          sum += x.data<float>()[i * 64 + k] * w.data<float>()[n * 64 + k];
        error = std::max(error, std::abs(sum - y.data<float>()[i * 16 + n]));
      }
    }
    EXPECT_LT(error, 0.01);
  }
  const GroupMatrix m = from_awq({get("awq.qweight"), get("awq.qzeros"), get("awq.scales")}, "awq");
  EXPECT_EQ(m.dequantize().to_vector<float>(), get("awq.values").to_vector<float>());
  expect_packs_exactly(m);
}

TEST(PackedCheckpoints, DamageIsNamedByLayerAndField) {
  const auto fresh = [] {  // tensors share the mapping, and what is written into it
    const auto file = open_weights(test::source_dir() + "/tests/quant/goldens/layouts.safetensors");
    const auto get = [&](const char* field) { return file->load_tensor(std::string("gptq.plain.") + field); };
    return GptqTensors{get("qweight"), get("qzeros"), get("scales"), get("g_idx")};
  };
  GptqTensors t = fresh();
  t.g_idx.data<std::int32_t>()[5] = 2;
  expect_message(message_of<Error>([&] { from_gptq(t, "layers.0.q"); }),
                 {"layers.0.q.g_idx", "input 5", "group 2"});
  t = fresh();
  t.g_idx.data<std::int32_t>()[5] = 1;
  expect_message(message_of<Error>([&] { from_gptq(t, "layers.0.q"); }),
                 {"layers.0.q.g_idx", "31 inputs instead of 32"});
  t = fresh();
  t.qzeros = Tensor::zeros({2, 3}, DType::i32);
  expect_message(message_of<Error>([&] { from_gptq(t, "layers.0.q"); }), {"layers.0.q.qzeros"});
  t = fresh();
  t.scales = Tensor::zeros({2, 16});
  t.scales.data<float>()[3] = NAN;
  expect_message(message_of<Error>([&] { pack(from_gptq(t, "layers.0.q"), "layers.0.q"); }),
                 {"layers.0.q", "scales", "nan"});
  expect_message(message_of<Error>([&] {
                   GroupMatrix::quantize(random({2, 100}, 1), {.group = 64}, "mlp.up");
                 }),
                 {"mlp.up", "100", "64"});
}

}  // namespace
}  // namespace ingot::quant
