// Importance matrices: what a run over a text measures, and what rounding makes of it.
#include "ingot/infer/calibration.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/infer/small_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/infer/load.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/nn/input_observer.h"
#include "ingot/quant/block_format.h"
#include "ingot/weights/encode.h"

namespace ingot::infer {
namespace {

std::vector<std::int32_t> some_tokens(std::int32_t count) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) ids[static_cast<std::size_t>(i)] = i * i % 59;
  return ids;
}

class Calibration : public ::testing::Test {
 protected:
  std::string model_of(const std::string& family) {
    return test::write_small_model(directory_.at(family), family);
  }
  test::TemporaryDirectory directory_;
};

// Each matrix of the file that llama.cpp opens, but for those that are looked up or never rounded.
TEST_F(Calibration, TellsOfEveryMatrixOfTheGgufFile) {
  for (const char* family : {"llama", "gpt2", "mixtral"}) {
    const std::string path = model_of(family);
    const auto model = load_model(path, "f32");
    const ImportanceMatrix found = measure_importance(*model, some_tokens(40), {.window = 16});
    EXPECT_EQ(found.chunks, 2U);
    const GgufExport exported = export_gguf(open_checkpoint(path));
    for (const TensorInfo& info : exported.weights->tensors()) {
      if (info.shape.size() < 2 || info.name == "token_embd.weight" || info.name == "position_embd.weight")
        continue;
      const auto* entry = found.find(info.name);
      ASSERT_NE(entry, nullptr) << family << ' ' << info.name;
      EXPECT_EQ(entry->cols(), info.shape.back()) << family << ' ' << info.name;
      EXPECT_EQ(entry->matrices(), info.shape.size() == 3 ? info.shape.front() : 1) << info.name;
    }
  }
}

TEST_F(Calibration, SumsTheSquaresOfWhatEachMatrixIsMultipliedWith) {
  const NoGrad no_grad;
  const auto model = load_model(model_of("mixtral"), "f32");
  const std::vector<std::int32_t> ids = some_tokens(16);
  const ImportanceMatrix found = measure_importance(*model, ids, {.window = 16});
  std::map<std::string, std::vector<float>, std::less<>> inputs;
  {
    const InputObserver observer([&](std::string_view name, const Tensor& x, const Tensor&) {
      inputs[std::string(name)] = x.to_vector<float>();
    });
    model->hidden({.tokens = Tensor::from(ids, {1, 16})});
  }
  const auto& sums = found.entries.at("blk.1.attn_output.weight").sums;
  const std::vector<float>& x = inputs.at("model.layers.1.self_attn.o_proj.weight");
  for (std::size_t c = 0; c < sums.size(); ++c) {
    double expected = 0;
    for (std::size_t row = 0; row < 16; ++row) expected += std::pow(x[row * sums.size() + c], 2);
    EXPECT_NEAR(sums[c], expected, 1e-5 * expected) << c;
  }
  // Every token goes to so many experts.
  const auto& counts = found.entries.at("blk.0.ffn_down_exps.weight").counts;
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0F),
            16.0F * static_cast<float>(model->config.num_experts_per_tok));
}

// Σ importance · (w − rounded)², the error that reaches the outputs.
double weighted_error(const quant::BlockFormat& format, const std::vector<float>& w,
                      const std::vector<float>& importance, bool use) {
  std::vector<std::byte> blocks(format.row_bytes(static_cast<std::int64_t>(w.size())));
  std::vector<float> rounded(w.size());
  quant::quantize(format, w, blocks, use ? std::span<const float>(importance) : std::span<const float>{});
  quant::dequantize(format, blocks, rounded);
  double sum = 0;
  for (std::size_t i = 0; i < w.size(); ++i)
    sum += importance[i % importance.size()] * std::pow(w[i] - rounded[i], 2);
  return sum;
}

TEST(ImportanceRounding, SparesTheColumnsThatMatterInEveryFormatThatTakesIt) {
  Rng rng(RngKey{5, 0});
  std::vector<float> w(512 * 32), importance(512);
  for (float& v : w) v = static_cast<float>(rng.normal());
  for (float& v : importance) v = static_cast<float>(std::exp(3 * rng.normal()));
  for (const quant::BlockFormat& format : quant::block_formats()) {
    if (!format.is_written()) continue;
    const double plain = weighted_error(format, w, importance, false),
                 spared = weighted_error(format, w, importance, true);
    const bool takes_it = format.name != "Q8_0" && format.name != "MXFP4" && !format.name.starts_with("TQ");
    if (takes_it)
      EXPECT_LT(spared, 0.9 * plain) << format.name;
    else
      EXPECT_EQ(spared, plain) << format.name;
  }
}

TEST_F(Calibration, RefusesAMatrixOfAnotherModelAndTextsThatAreTooShort) {
  const std::string path = model_of("llama");
  const auto model = load_model(path, "f32");
  EXPECT_THROW(measure_importance(*model, some_tokens(8), {.window = 16}), DimensionMismatch);
  auto other = std::make_shared<ImportanceMatrix>();
  other->entries["blk.77.attn_q.weight"] = {{1, 1}, {1}};
  const GgufExport exported = export_gguf(open_checkpoint(path));
  const WeightEncoding encoding{
      .dtype = std::nullopt, .blocks = quant::find_block_format("Q4_0"), .importance = other};
  const std::string message =
      test::message_of<InvalidConfig>([&] { encode_weights(exported.weights, encoding, true); });
  EXPECT_NE(message.find("blk.77.attn_q.weight"), std::string::npos) << message;
}

}  // namespace
}  // namespace ingot::infer
