#include <cstdlib>

#include "tests/models/forecast_goldens.h"
#include "tests/models/half_precision.h"
#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/models/forecast/model.h"
#include "ingot/models/forecast/patchtst.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/view.h"

// Outputs and gradients of the original implementations: tools/goldens/forecast_models.py.
namespace ingot {
namespace {

using test::forecast_golden;
using test::forecast_golden_config;
using test::load_tensors;
using test::with_prefix;

// The outputs of training mode, and the gradient of every parameter for "dy".
void expect_training_step(ForecastModel& model, const ForecastInput& input,
                          const std::map<std::string, Tensor>& expected) {
  model.set_training(true);  // dropout is 0; batch statistics are those of the batch
  const Tensor y = model(input);
  EXPECT_LT(testing::max_error(y, expected.at("y_training")), 1e-5);
  backward(y, {.grad = expected.at("dy")});
  const auto gradients = with_prefix(expected, "grad.");
  std::size_t compared = 0;
  for_each_parameter(model, [&](const std::string& name, Parameter& p) {
    if (!p.trainable()) return;
    ASSERT_EQ(p.grad().defined(), gradients.contains(name)) << name;
    if (!gradients.contains(name)) return;  // FEDformer has projections that nothing reads
    EXPECT_LT(testing::max_error(p.grad(), gradients.at(name)), 3e-5) << name;
    ++compared;
  });
  EXPECT_EQ(compared, gradients.size());
}

class ForecastGolden : public ::testing::TestWithParam<const char*> {};

TEST_P(ForecastGolden, OutputsAndEveryGradientEqualTheOriginals) {
  const std::string path = forecast_golden(GetParam()) + ".safetensors";
  const std::map<std::string, Tensor> all = load_tensors(path);
  const ForecastModelConfig c = forecast_golden_config(path);
  TensorMapSource source(with_prefix(all, "param."), {.copy = true}, path);
  const auto model = make_forecast_model(c, source);
  source.finish();
  const auto given = [&](const char* name) { return all.contains(name) ? all.at(name) : Tensor(); };
  const ForecastInput input{
      .x = all.at("x"), .past_marks = given("marks"), .future_marks = given("future_marks")};
  {
    const NoGrad no_grad;
    EXPECT_LT(testing::max_error((*model)(input), all.at("y")), 1e-5);
  }
  expect_training_step(*model, input, all);
}

INSTANTIATE_TEST_SUITE_P(Models, ForecastGolden,
                         ::testing::Values("dlinear", "dlinear_individual", "nlinear", "patchtst_official",
                                           "itransformer", "timesnet", "autoformer", "fedformer_low",
                                           "fedformer_random", "fedformer_wavelets"),
                         [](const auto& info) { return std::string(info.param); });

std::unique_ptr<ForecastModel> load_patchtst(const std::string& folder, const LoadOptions& options) {
  const ForecastModelConfig c =
      patchtst_from_transformers(read_file(folder + "/config.json"), folder + "/config.json");
  return ForecastModel::from_weights(c, *open_weights(folder), options);
}

class TransformersPatchTst : public ::testing::TestWithParam<const char*> {};

TEST_P(TransformersPatchTst, WhatIsWrittenOpensAgainWithTheSameTensors) {
  // tools/compare/transformers_reimport.py keeps what is written, and opens it with transformers.
  const char* kept = std::getenv("INGOT_KEEP_MODELS");
  const std::string name = std::string("transformers_") + GetParam();
  const test::TemporaryDirectory temporary;
  const std::string folder = forecast_golden(name),
                    written = kept != nullptr ? std::string(kept) + "/" + name : temporary.at(name);
  const auto model = load_patchtst(folder, {});
  write_patchtst(written, *model);
  const auto again = load_patchtst(written, {});
  EXPECT_EQ(to_json(again->config()), to_json(model->config()));
  const auto original = load_tensors(folder + "/model.safetensors"), copy = load_tensors(written);
  EXPECT_EQ(copy.size(), original.size());
  for (const auto& [key, tensor] : copy) {
    ASSERT_TRUE(original.contains(key)) << key;
    if (key.ends_with("num_batches_tracked")) continue;
    EXPECT_EQ(testing::max_error(tensor, original.at(key)), 0) << key;
  }
}

TEST(TransformersPatchTst, WhatTransformersLacksIsNotWritten) {
  const ForecastModelConfig c = ForecastModelConfig::defaults("patchtst");
  try {
    patchtst_to_transformers(c);
    ADD_FAILURE() << "residual attention was written";
  } catch (const InvalidConfig& error) {
    EXPECT_EQ(error.key, "pad_end");
  }
}

TEST_P(TransformersPatchTst, Bf16AndItsGradientsAreNearF32OnTheSameWeights) {
  const std::string folder = forecast_golden(std::string("transformers_") + GetParam());
  const auto half = load_patchtst(folder, {.dtype = DType::bf16}), oracle = load_patchtst(folder, {});
  test::round_to_bf16(*oracle);
  const auto expected = load_tensors(folder + "/expected.safetensors");
  const Tensor x = to(expected.at("x"), DType::bf16), dy = to(expected.at("dy"), DType::bf16);
  const auto outputs = [&](ForecastModel& model, DType dtype) {
    const ForecastInput input{.x = to(x, dtype), .past_marks = {}, .future_marks = {}};
    Tensor y;
    {
      const NoGrad no_grad;
      y = model(input);
    }
    model.set_training(true);
    backward(model(input), {.grad = to(dy, dtype)});
    return y;
  };
  EXPECT_LE(test::relative_error(outputs(*half, DType::bf16), outputs(*oracle, DType::f32)),
            test::kBf16Outputs);
  EXPECT_LE(test::relative_error(test::gradients_of(*half), test::gradients_of(*oracle)),
            test::kBf16Gradients);
}

TEST_P(TransformersPatchTst, OpensAndGivesEqualOutputsAndGradients) {
  const std::string folder = forecast_golden(std::string("transformers_") + GetParam());
  const ForecastModelConfig c =
      patchtst_from_transformers(read_file(folder + "/config.json"), folder + "/config.json");
  TensorMapSource source(load_tensors(folder + "/model.safetensors"), {}, folder);
  const auto model = make_forecast_model(c, source);
  source.finish({"*.num_batches_tracked"});
  const auto expected = load_tensors(folder + "/expected.safetensors");
  const ForecastInput input{.x = expected.at("x"), .past_marks = {}, .future_marks = {}};
  {
    const NoGrad no_grad;
    EXPECT_LT(testing::max_error((*model)(input), expected.at("y")), 1e-5);
  }
  expect_training_step(*model, input, expected);
}

INSTANTIATE_TEST_SUITE_P(Variants, TransformersPatchTst,
                         ::testing::Values("default", "mixing", "flat", "cls"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TransformersPatchTst, RefusesWhatItCannotForecastWith) {
  EXPECT_THROW(patchtst_from_transformers("[]", "config.json"), FormatError);
  EXPECT_THROW(patchtst_from_transformers(R"({"model_type": "bert"})", "config.json"), FormatError);
  EXPECT_THROW(patchtst_from_transformers(R"({"model_type": "patchtst", "loss": "nll"})", "config.json"),
               NotImplemented);
  EXPECT_THROW(patchtst_from_transformers(R"({"model_type": "patchtst", "d_model": "wide"})", "config.json"),
               FormatError);
}

// A window's periods are its own, and what is kept of the weights outside training is forgotten with them.
TEST(TimesNet, ForecastsAWindowAlikeInEveryBatch) {
  ForecastModelConfig c = ForecastModelConfig::defaults("timesnet", 13);
  c.lookback = 40;
  c.channels = 3;
  c.layers = 1;
  c.d_model = c.d_ff = 8;
  c.top_k = c.kernels = 2;
  InitSource source(5);
  const auto model = make_forecast_model(c, source);
  const Tensor x = testing::randn({21, 3, 40}, 1);  // more windows than go through a convolution at once
  const auto forecast = [&](const Tensor& windows) {
    return (*model)({.x = windows, .past_marks = {}, .future_marks = {}});
  };
  const NoGrad no_grad;
  const Tensor all = forecast(x);
  for (std::int64_t i = 0; i < 21; ++i) {
    EXPECT_LT(testing::max_error(forecast(narrow(x, 0, i, 1)), narrow(all, 0, i, 1)), 1e-5) << i;
  }
  for_each_parameter(*model, [](const std::string&, Parameter& p) { mul_(p.value, 0.5); });
  model->set_training(false);
  EXPECT_GT(testing::max_error(forecast(x), all), 1e-3);
}

TEST(ForecastModelConfig, NamesTheKeyThatIsWrong) {
  const auto key_of = [](const ForecastModelConfig& c) -> std::string {
    try {
      c.validate();
    } catch (const InvalidConfig& error) {
      return error.key;
    }
    return "";
  };
  ForecastModelConfig c = ForecastModelConfig::defaults("patchtst");
  EXPECT_EQ(key_of(c), "");
  c.heads = 3;
  EXPECT_EQ(key_of(c), "heads");
  c = ForecastModelConfig::defaults("patchtst");
  c.patch_length = 400;
  EXPECT_EQ(key_of(c), "patch_length");
  c = ForecastModelConfig::defaults("dlinear");
  c.horizon = 0;
  EXPECT_EQ(key_of(c), "horizon");
  c.horizon = 1;
  c.moving_average = 24;
  EXPECT_EQ(key_of(c), "moving_average");
  c = ForecastModelConfig::defaults("timesnet");
  c.top_k = 0;
  EXPECT_EQ(key_of(c), "top_k");
  c = ForecastModelConfig::defaults("autoformer");
  c.label_length = 97;
  EXPECT_EQ(key_of(c), "label_length");
  c = ForecastModelConfig::defaults("fedformer");
  EXPECT_EQ(key_of(c), "");
  c.moving_averages = {24, 0};
  EXPECT_EQ(key_of(c), "moving_averages");
  c.moving_averages = {24};
  c.version = "wavelet";
  EXPECT_EQ(key_of(c), "version");
  EXPECT_THROW(ForecastModelConfig::defaults("prophet"), InvalidConfig);
}

// The sizes that the papers' code prints, with ETTh1's seven channels and four calendar features.
TEST(ForecastModels, HaveTheParametersOfThePublishedOnes) {
  const auto count = [](const char* name) {
    ForecastModelConfig c = ForecastModelConfig::defaults(name);
    c.channels = 7;
    c.time_features = 4;
    InitSource source(1);
    const auto model = make_forecast_model(c, source);
    return count_parameters(*model, true);
  };
  EXPECT_EQ(count("dlinear"), 64'704);
  EXPECT_EQ(count("patchtst"), 81'728);
  EXPECT_EQ(count("itransformer"), 841'568);
  EXPECT_EQ(count("timesnet"), 605'479);
  EXPECT_EQ(count("autoformer"), 10'535'943);
  EXPECT_EQ(count("fedformer"), 22'070'279);  // both parts of complex weights count
}

}  // namespace
}  // namespace ingot
