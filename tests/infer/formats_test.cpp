// Whole models in quantized formats: experts, GPT-2's files, what `ingot quantize` writes, what formats cost.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "tests/infer/small_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/infer/engine.h"
#include "ingot/infer/load.h"
#include "ingot/infer/matrix_sizes.h"
#include "ingot/infer/quality.h"
#include "ingot/models/language/format_plan.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/quant/block_format.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/gguf_writer.h"
#include "ingot/weights/quantized_writer.h"

namespace ingot::infer {
namespace {

// What rounding to `steps` equal steps between 0 and the largest of `count` Gaussian numbers leaves as
// relative error: such steps are in error by their size / √12 (rms), and E[top²] = ∫ 2t·P(top > t) dt.
double rounding_error(double count, double steps) {
  double top_squared = 0;
  constexpr double kStep = 1e-3;
  for (double t = kStep / 2; t < 10; t += kStep)
    top_squared += 2 * t * (1 - std::pow(std::erf(t / std::sqrt(2)), count)) * kStep;
  return std::sqrt(top_squared / 12) / steps;
}
const double kActivations = rounding_error(32, 127);  // 0.5 %

class Formats : public ::testing::Test {
 protected:
  std::string write_model(const std::string& family) {
    return test::write_small_model(directory_.at(family), family);
  }
  static std::vector<std::int32_t> ids() {
    std::vector<std::int32_t> ids(40);
    for (std::int32_t i = 0; i < 40; ++i) ids[static_cast<std::size_t>(i)] = i * i % 59;
    return ids;
  }
  static std::vector<float> logits(const LanguageModel& model) {
    const NoGrad no_grad;
    return model.logits(model.hidden({.tokens = Tensor::from(ids(), {1, 40})})).to_vector<float>();
  }
  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double error = 0, power = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      error += std::pow(a[i] - b[i], 2);
      power += std::pow(b[i], 2);
    }
    return std::sqrt(error / power);
  }
  test::TemporaryDirectory directory_;
};

TEST_F(Formats, KeysAndValuesAreKeptInHalfWhereWeightsAreNoFiner) {
  const std::string path = write_model("llama");
  EXPECT_EQ(Engine(*load_model(path)).kv_cache(), DType::f32);
  for (const char* format : {"bf16", "f16", "q8_0", "q4_0"})
    EXPECT_EQ(Engine(*load_model(path, format)).kv_cache(), DType::f16) << format;
  EXPECT_EQ(Engine(*load_model(path, "q8_0"), {.kv_cache = DType::i8}).kv_cache(), DType::i8);
}

TEST_F(Formats, ExpertsRunInTheFormatAskedForAndTheirRouterAsItIs) {
  const std::string path = write_model("mixtral");
  for (const char* format : {"q8_0", "q4_0", "int4-g64", "nf4", "fp8"}) {
    const auto packed = load_model(path, format), rounded = load_rounded_model(path, format);
    const MoeMlp& experts = *packed->layers.front()->experts;
    EXPECT_EQ(experts.gate_proj->packed.size(), 4U) << format;
    EXPECT_EQ(experts.down_proj.packed.size(), 4U) << format;
    EXPECT_FALSE(experts.router.gate.weight.is_quantized());
    // A near-tie between experts may fall otherwise when activations are rounded, so not all logits are near.
    const std::vector<float> found = logits(*packed), expected = logits(*rounded);
    // FP8 rounds no activations; nf4 those of the head alone, which it keeps in eight bits. Normed states are
    // not quite Gaussian: half as much again.
    const std::string name = format;
    EXPECT_LT(distance(found, expected), name == "fp8"   ? 1e-4
                                         : name == "nf4" ? 1.5 * kActivations
                                                         : 0.2)
        << format;
    EXPECT_LT(matrix_sizes(*packed).bytes, 0.4 * matrix_sizes(*rounded).bytes) << format;
  }
}

TEST_F(Formats, MatricesOfAGpt2GgufFileRunInTheBlocksThatItHolds) {
  // Independent errors add as squares. Of each of two layers: the values' input 1, the scores' (queries and
  // keys) 2, the mixed values 1, the MLP's input 1, and its output's 4, since GELU leaves half of the numbers
  // near 0, which doubles the largest in proportion; then the head's 1.
  const double bound = kActivations * std::sqrt(2 * (1 + 2 + 1 + 1 + 4) + 1);
  const GgufExport model = export_gguf(open_checkpoint(write_model("gpt2")));
  for (const char* name : {"Q8_0", "Q4_0"}) {
    const auto weights = encode_weights(
        model.weights, {.dtype = std::nullopt, .blocks = quant::find_block_format(name)}, true);
    const std::string file = directory_.at("gpt2.gguf");
    write_gguf(file, model.metadata, gguf_tensors(*weights));
    const auto packed = load_model(file), values = load_model(file, "f32");
    const Attention& attention = *packed->layers[1]->self_attn;
    for (const Linear* linear :
         {&attention.qkv_proj[0], &attention.qkv_proj[1], &attention.qkv_proj[2], &attention.o_proj}) {
      ASSERT_TRUE(linear->weight.is_quantized()) << name;
      EXPECT_EQ(linear->weight.out(), 128);
    }
    ASSERT_TRUE(packed->layers[1]->mlp->down_proj.weight.is_quantized());
    EXPECT_LT(distance(logits(*packed), logits(*values)), bound) << name;  // activations rounded to int8
  }
}

// Large inputs are quantized as they are made, except where an adapter reads them, too: a fresh one changes
// nothing.
TEST_F(Formats, QuantizingRowsAsTheyAreMadeChangesNoBit) {
  const NoGrad no_grad;
  const std::vector<std::int32_t> row = ids();
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 4; ++i) tokens.insert(tokens.end(), row.begin(), row.end());
  for (const char* family : {"gpt2", "llama", "gemma2", "mixtral"}) {
    const std::string path = write_model(family);
    for (const char* format : {"q8_0", "w8a8"}) {
      const auto model = load_model(path, format);
      const auto hidden = [&] {
        return model->hidden({.tokens = Tensor::from(tokens, {4, 40})}).to_vector<float>();
      };
      const std::vector<float> by_rows = hidden();
      InitSource source(1);
      for (const auto& [name, weight] : named_weights(*model))
        weight->add_adapter(ParamSource(source).scope(name), "default", 2, 1.0F);
      EXPECT_EQ(hidden(), by_rows) << family << " " << format;
    }
  }
}

// Which format stands in for which, in rows of how many columns, and how often.
using StandInRow = std::tuple<std::string, std::string, std::set<std::int64_t>, std::size_t>;
std::vector<StandInRow> rows_of(const quant::StandIns& stand_ins) {
  std::vector<StandInRow> rows;
  for (const auto& row : stand_ins.rows())
    rows.emplace_back(row.wanted, row.used, row.columns, row.names.size());
  std::ranges::sort(rows);
  return rows;
}

// Blocks of 256 do not divide rows of 128, and blocks of 32 not those of 48.
TEST_F(Formats, LoadingAndWritingLetTheSameFormatsStandInWhereBlocksDoNotDivideARow) {
  LanguageConfig config = test::small_config("llama");
  config.hidden_size = 48;
  InitSource init(5);
  LanguageModel small(config, init);
  const std::string path = directory_.at("narrow"), file = directory_.at("narrow.gguf");
  write_language_model(path, config, parameter_map(small));
  using Rows = std::vector<StandInRow>;
  const std::map<std::string, Rows> expected{
      {"q4_k", {{"q4_k", "f16", {48}, 12}, {"q4_k", "q5_0", {128}, 2}, {"q6_k", "f16", {48}, 2}}},
      {"q2_k", {{"q2_k", "f16", {48}, 14}, {"q2_k", "q4_0", {128}, 2}}},
      {"q8_0", {{"q8_0", "f16", {48}, 14}}}};
  for (const auto& [format, rows] : expected) {
    const GgufExport model = export_gguf(open_checkpoint(path));
    quant::StandIns written;
    const auto weights = encode_weights(
        model.weights, {.dtype = std::nullopt, .blocks = quant::find_block_format(format)}, true, &written);
    write_gguf(file, model.metadata, gguf_tensors(*weights));
    EXPECT_EQ(rows_of(written), rows) << format;
    EXPECT_EQ(rows_of(stand_ins_of(config, format)), rows) << format;
    EXPECT_EQ(logits(*load_model(path, format)), logits(*load_model(file))) << format;
    // Values come out of tiles here and out of blocks there, which round the multiplication by a scale
    // differently.
    EXPECT_LT(distance(logits(*load_rounded_model(path, format)), logits(*load_model(file, "f32"))), 1e-3)
        << format;
  }
  EXPECT_EQ(rows_of(stand_ins_of(config, "int4-g128")), (Rows{{"int4-g128", "", {48}, 14}}));
  EXPECT_EQ(logits(*load_model(path, "int4-g32")).size(), 40U * 61);
}

bool of_layers(const TensorInfo& info) {
  return info.shape.size() == 2 && info.name.find(".layers.") != std::string::npos;
}

TEST_F(Formats, WrittenDirectoriesRunOnTheVeryTilesThatRoundingAtLoadMakes) {
  const std::string path = write_model("llama");
  const ModelCheckpoint checkpoint = open_checkpoint(path);
  for (const std::string& format : quantized_checkpoint_formats()) {
    const std::string written = directory_.at(format);
    make_directories(written);
    const QuantizedCheckpoint quantized = quantize_checkpoint(*checkpoint.weights, format, of_layers);
    write_safetensors_directory(written, quantized.tensors);
    auto config = parse_json<nlohmann::json>(checkpoint.config_json, "the test");
    config["quantization_config"] = parse_json<nlohmann::json>(quantized.config, "the test");
    write_file_atomically(written + "/config.json", dump_json(config));
    const auto as_written = load_model(written), at_load = load_model(path, format);
    for (std::size_t i = 0; i < 2; ++i) {
      const auto expect_same = [&](const Linear& a, const Linear& b) {
        ASSERT_TRUE(a.weight.is_quantized()) << format;
        EXPECT_EQ(a.weight.packed->format, b.weight.packed->format) << format;
        EXPECT_EQ(a.weight.packed->data.to_vector<std::uint8_t>(),
                  b.weight.packed->data.to_vector<std::uint8_t>())
            << format;
      };
      expect_same(as_written->layers[i]->self_attn->qkv_proj[2], at_load->layers[i]->self_attn->qkv_proj[2]);
      expect_same(as_written->layers[i]->mlp->down_proj, at_load->layers[i]->mlp->down_proj);
    }
  }
}

TEST_F(Formats, QualityTellsWhatRoundingWeightsAndActivationsCosts) {
  const QualityReport report(write_model("llama"), ids(), {.window = 24, .stride = 12});
  EXPECT_EQ(report.reference().tokens, 39);
  const FormatQuality q8 = report.measure("q8_0"), q4 = report.measure("q4_0"), nf4 = report.measure("nf4");
  EXPECT_NEAR(q8.bits_per_weight, 8.5, 0.05);
  EXPECT_NEAR(nf4.bits_per_weight, 4.5, 0.3);  // the head's rows do not fill its last panel
  // Blocks of 32; Q8_0 has 127 steps to the largest, Q4_0 eight, and leaves embedding and head in Q8_0.
  EXPECT_NEAR(q8.weight_error / rounding_error(32, 127), 1, 0.05);
  const double of_layers = 2 * (2 * 128 * 128 + 2 * 64 * 128 + 3 * 128 * 128), other = 2 * 61 * 128;
  const double share = of_layers / (of_layers + other);
  EXPECT_NEAR(q4.weight_error / (std::sqrt(share) * rounding_error(32, 8)), 1, 0.15);
  EXPECT_GE(q8.weights.kl, 0);
  EXPECT_LT(q8.weights.kl, q4.weights.kl);
  EXPECT_GT(q8.as_run.kl, q8.weights.kl);  // its activations are rounded too
  EXPECT_NEAR(nf4.as_run.kl, nf4.weights.kl, 1e-4 + 0.01 * nf4.weights.kl);
  EXPECT_LE(q8.as_run.same_top, 1);
  EXPECT_EQ(q8.as_run.text.tokens, 39);
  EXPECT_TRUE(q8.stand_ins.empty());
  ASSERT_EQ(q4.stand_ins.rows().size(), 1U);  // head and embedding
  EXPECT_EQ(q4.stand_ins.rows()[0].used, "q8_0");
}

}  // namespace
}  // namespace ingot::infer
