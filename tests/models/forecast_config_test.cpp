#include <algorithm>
#include <map>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/models/forecast/model.h"
#include "ingot/ops/random.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

ForecastModelConfig small_model(const std::string& name) {
  ForecastModelConfig c = ForecastModelConfig::defaults(name, 8);
  c.lookback = 32;
  c.channels = 2;
  c.time_features = 4;
  if (name != "dlinear" && name != "nlinear") c.d_model = c.d_ff = 16;
  c.residual_attention = false;  // else channel_attention does not go
  return c;
}

// Another value that a key may have.
Json changed(const std::string& key, const Json& value) {
  const std::map<std::string, Json> words{{"activation", "relu"},     {"norm", "layernorm"},
                                          {"positions", "sincos"},    {"scaling", "mean"},
                                          {"pooling", "mean"},        {"version", "wavelets"},
                                          {"mode_select", "low"},     {"cross_activation", "softmax"},
                                          {"moving_averages", {3, 5}}};
  if (const auto found = words.find(key); found != words.end()) return found->second;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number_float()) return 0.25;
  return value.get<std::int64_t>() + 2;
}

ForecastModelConfig read_model(const Json& json) {
  return read_forecast_model(Config::parse(dump_json(json)).root(), ForecastModelConfig());
}

// A step of training: of what a configuration says, nothing stays without effect on it.
Tensor trained_output(const ForecastModelConfig& c) {
  const NoGrad no_grad;
  InitSource source(1);
  const auto model = make_forecast_model(c, source);
  model->set_training(true);
  const auto values = [](const Shape& shape) {
    Tensor t = Tensor::empty(shape);
    for (std::int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i * 7 % 11) / 10;
    return t;
  };
  const RandomScope random(1, 1);
  return (*model)(
      {.x = values({3, 2, 32}), .past_marks = values({3, 32, 4}), .future_marks = values({3, 8, 4})});
}

class KeysOfForecastModels : public ::testing::TestWithParam<std::string> {};

TEST_P(KeysOfForecastModels, ThoseWithoutEffectHaveNone) {
  const ForecastModelConfig own = small_model(GetParam());
  const std::vector<std::string> before = keys_without_effect(own);
  const Json all = parse_json<Json>(to_json(own), "the configuration");
  const Tensor expected = trained_output(own);
  int without_effect = 0;
  for (const auto& [key, value] : all.items()) {
    if (key == "model") continue;
    Json other = all;
    other[key] = changed(key, value);
    const ForecastModelConfig c = read_model(other);
    const std::vector<std::string> keys = keys_without_effect(c);
    if (std::ranges::find(keys, key) == keys.end() || std::ranges::find(before, key) != before.end())
      continue;
    EXPECT_EQ(testing::max_error(trained_output(c), expected), 0) << key;
    ++without_effect;
  }
  EXPECT_GT(without_effect, 5);
}

INSTANTIATE_TEST_SUITE_P(Each, KeysOfForecastModels, ::testing::ValuesIn(forecast_models()),
                         [](const auto& info) { return info.param; });

TEST(KeysOfForecastModels, AreNamedWhereTheyDoNotBelong) {
  ForecastModelConfig c = ForecastModelConfig::defaults("dlinear");
  EXPECT_TRUE(keys_without_effect(c).empty());
  c.d_model = 64;
  c.moving_average = 13;
  EXPECT_EQ(keys_without_effect(c), std::vector<std::string>{"d_model"});
}

TEST(ForecastModelConfig, AnActivationThatThereIsNotIsRefusedBeforeTheFit) {
  ForecastModelConfig c = ForecastModelConfig::defaults("patchtst");
  c.activation = "gleu";
  EXPECT_THROW(c.validate(), InvalidConfig);
}

}  // namespace
}  // namespace ingot
