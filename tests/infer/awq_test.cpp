// AWQ: scaled columns keep a model's function, and lose less by rounding.
#include "ingot/export/awq.h"

#include <cmath>

#include "tests/infer/small_model.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/rng.h"
#include "ingot/infer/load.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/ops/matmul.h"
#include "ingot/ops/view.h"
#include "ingot/quant/group_matrix.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot {
namespace {

// Inputs [rows, cols] of which every ninth column is 20 times as large.
Tensor uneven_inputs(std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Rng rng(RngKey{seed, 0});
  Tensor x = Tensor::empty({rows, cols});
  for (std::int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = static_cast<float>((i % cols % 9 == 0 ? 20 : 1) * rng.normal());
  return x;
}

Tensor products_of(const Tensor& x) { return matmul(transpose(x, 0, 1), x); }

InputProducts uneven_products() {
  return [](const std::string& weight) { return products_of(uneven_inputs(256, 128, weight.size())); };
}

std::vector<float> logits_of(const std::string& directory) {
  const NoGrad no_grad;
  const auto model = infer::load_model(directory, "f32");
  const Tensor tokens = Tensor::from(std::vector<std::int64_t>{1, 5, 9, 30, 44, 2, 60, 17}, {1, 8});
  return model->logits(model->hidden({.tokens = tokens})).to_vector<float>();
}

double output_error(const Tensor& x, const Tensor& w, const Tensor& rounded) {
  const std::vector<float> off = matmul(x, transpose(w - rounded, 0, 1)).to_vector<float>();
  double sum = 0;
  for (const float v : off) sum += double{v} * v;
  return sum;
}

TEST(Awq, ScaledCheckpointsComputeTheSame) {
  test::TemporaryDirectory directory;
  for (const char* family : {"llama", "gemma2", "arcee"}) {
    const std::string model = test::write_small_model(directory.at(family), family, 0.3);
    const ModelCheckpoint checkpoint = open_checkpoint(model);
    const AwqSource scaled(*checkpoint.weights, LanguageConfig::from_json(checkpoint.config_json, model),
                           uneven_products(), {.bits = 4, .group = 32});
    std::vector<StoredTensor> tensors;
    int changed = 0;
    for (const TensorInfo& info : scaled.tensors()) {
      const Tensor value = scaled.load_tensor(info.name);
      changed += value.to_vector<float>() != checkpoint.weights->load_tensor(info.name).to_vector<float>();
      tensors.push_back(StoredTensor::of(info.name, value));
    }
    // Of each layer two norms, and what they feed; down projections where no square of a ReLU lies in front.
    EXPECT_GE(changed, std::string(family) == "arcee" ? 2 * 6 : 2 * 8) << family;
    const std::string copy = directory.at(std::string(family) + "-scaled");
    make_directories(copy);
    write_file_atomically(copy + "/config.json", checkpoint.config_json);
    write_safetensors_directory(copy, tensors, {});
    const std::vector<float> before = logits_of(model), after = logits_of(copy);
    for (std::size_t i = 0; i < before.size(); ++i)
      ASSERT_NEAR(after[i], before[i], 2e-4 * (1 + std::abs(before[i]))) << family << " " << i;
  }
}

TEST(Awq, FactorsLoseLessOfTheOutputThanPlainRounding) {
  const std::int64_t cols = 128;
  const Tensor x = uneven_inputs(400, cols, 1);
  Rng rng(RngKey{2, 0});
  Tensor w = Tensor::empty({64, cols});
  for (std::int64_t i = 0; i < w.numel(); ++i) w.data<float>()[i] = static_cast<float>(rng.normal());
  for (const quant::GroupOptions options :
       {quant::GroupOptions{.bits = 4, .group = 32},
        quant::GroupOptions{.bits = 4, .group = 64, .symmetric = false}}) {
    const Tensor s = awq_factors({w}, products_of(x), options);
    const Tensor plain = quant::GroupMatrix::quantize(w, options).dequantize();
    const Tensor scaled = quant::GroupMatrix::quantize(w * s, options).dequantize() / s;
    EXPECT_LT(output_error(x, w, scaled), 0.6 * output_error(x, w, plain)) << options.group;
  }
}

TEST(Awq, InputsOfOneSizeAreLeftAsTheyAre) {
  Tensor products = Tensor::zeros({32, 32});
  for (std::int64_t c = 0; c < 32; ++c) products.data<float>()[c * 33] = 7;
  const Tensor w = uneven_inputs(8, 32, 3);
  for (const float s : awq_factors({w}, products, {.bits = 4, .group = 32}).to_vector<float>())
    EXPECT_NEAR(s, 1, 1e-6);
}

TEST(Awq, AFamilyWhoseNormsFeedMoreIsRefusedByName) {
  test::TemporaryDirectory directory;
  const std::string model = test::write_small_model(directory.at("mixtral"), "mixtral");
  const ModelCheckpoint checkpoint = open_checkpoint(model);
  const LanguageConfig config = LanguageConfig::from_json(checkpoint.config_json, model);
  const std::string problem = test::message_of<NotImplemented>(
      [&] { AwqSource(*checkpoint.weights, config, uneven_products(), {.bits = 4, .group = 32}); });
  EXPECT_NE(problem.find("AWQ for mixtral"), std::string::npos) << problem;
  EXPECT_NE(problem.find("--method gptq"), std::string::npos) << problem;
}

}  // namespace
}  // namespace ingot
