#include <map>

#include "tests/forecast/cuda/tiny_fit.h"
#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"

#include "ingot/autograd/engine.h"
#include "ingot/base/files.h"
#include "ingot/forecast/evaluate.h"
#include "ingot/forecast/fit_checkpoint.h"
#include "ingot/forecast/forecaster.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/elementwise.h"
#include "ingot/ops/loss.h"
#include "ingot/ops/random.h"
#include "ingot/ops/reduce.h"

// Forecasting on a CUDA device, emulated or not, against forecasting on the CPU.
namespace ingot::forecast {
namespace {

using test::kDevice;
using testing::max_error;
using testing::randn;

// Both sum in f32, in another order: some hundred roundings of 6e-8 behind each other at most.
constexpr double kOtherOrder = 1e-5;
// Adam divides gradients by their own size, so that one that is all rounding error still moves its weight by
// up to the learning rate.
constexpr double kOtherOrderAdam = 1e-3;

// hours() with rows that nobody measured among those to fit to and to validate with.
SeriesTable hours_with_gaps() {
  std::string csv = hourly_csv(70);
  for (const int row : {30, 31, 44, 50}) {
    std::size_t line = 0;
    for (int i = 0; i < row; ++i) line = csv.find('\n', line) + 1;
    const std::size_t comma = csv.rfind(',', csv.find('\n', line));
    csv.erase(comma + 1, csv.find('\n', comma) - comma - 1);
  }
  return table_of(csv);
}

struct Network {
  std::string name;
  ForecastModelConfig config;
};

// Every network, and the variants that put tensors of their own on the device.
std::vector<Network> networks() {
  std::vector<Network> all;
  const auto add = [&](const std::string& model, const std::string& variant, auto&& change) {
    ForecastModelConfig c = tiny(model, "cpu").model;
    c.channels = 3;
    c.time_features = model == "dlinear" || model == "nlinear" || model == "patchtst" ? 0 : 4;
    change(c);
    all.push_back({variant.empty() ? model : model + ", " + variant, c});
  };
  for (const std::string& model : forecast_models()) add(model, "", [](ForecastModelConfig&) {});
  add("dlinear", "individual", [](ForecastModelConfig& c) { c.individual = true; });
  add("patchtst", "as transformers", [](ForecastModelConfig& c) {
    c.positions = "sincos";
    c.cls_token = true;
    c.residual_attention = c.pad_end = false;
    c.scaling = "mean";
  });
  add("patchtst", "mixing channels", [](ForecastModelConfig& c) {
    c.channel_attention = true;
    c.residual_attention = false;
  });
  add("autoformer", "as the paper", [](ForecastModelConfig& c) { c.follow_paper = true; });
  add("fedformer", "few modes as the paper", [](ForecastModelConfig& c) {
    c.modes = 4;  // drawn from twelve
    c.follow_paper = true;
    c.moving_averages = {4, 7};
  });
  add("fedformer", "wavelets", [](ForecastModelConfig& c) { c.version = "wavelets"; });
  return all;
}

struct Pass {
  Tensor forecast;
  std::map<std::string, Tensor> gradients;
};

// A pass there and, while training, back.
Pass pass(const ForecastModelConfig& config, Device device, bool training) {
  InitSource source(7, DType::f32, device);
  const auto model = make_forecast_model(config, source);
  EXPECT_EQ(model->device(), device);
  model->set_training(training);
  const RandomScope random(3, 5);  // of dropout
  const std::int64_t batch = 2, features = config.time_features;
  ForecastInput input{.x = to(randn({batch, config.channels, config.lookback}, 1), device)};
  if (features > 0) {
    input.past_marks = to(randn({batch, config.lookback, features}, 2), device);
    input.future_marks = to(randn({batch, config.horizon, features}, 3), device);
  }
  const Tensor y = (*model)(input);
  Pass result{.forecast = to(y.detach(), kCpu), .gradients = {}};
  if (!training) return result;
  backward(mse_loss(y, to(randn({batch, config.channels, config.horizon}, 4), device)));
  for (const auto& [name, parameter] : named_parameters(*model)) {
    if (parameter->grad().defined()) result.gradients[name] = to(parameter->grad(), kCpu);
  }
  return result;
}

double largest(const Tensor& x) { return max(abs(x)).item(); }

// Of a parameter's largest gradient. Where tanh of complex numbers, which has poles, weighs frequencies, one
// bit more of the input changes some gradients on the CPU by 4e-5, too.
double tolerance_of(const ForecastModelConfig& c) {
  return c.model == "fedformer" && c.cross_activation == "tanh" ? 3e-4 : kOtherOrder;
}

// What gradients are that are 0 but for rounding, as those of a norm before which a mean is taken off.
double rounding_of(const Pass& pass) {
  double all = 0;
  for (const auto& [name, gradient] : pass.gradients) all = std::max(all, largest(gradient));
  return 1e-6 * all;
}

TEST(DeviceForecast, EveryNetworkHasTheForecastsAndGradientsOfTheCpu) {
  for (const auto& [name, config] : networks()) {
    for (const bool training : {false, true}) {
      const Pass expected = pass(config, kCpu, training), actual = pass(config, kDevice, training);
      EXPECT_LT(max_error(actual.forecast, expected.forecast), kOtherOrder) << name << training;
      ASSERT_EQ(actual.gradients.size(), expected.gradients.size()) << name;
      for (const auto& [parameter, gradient] : expected.gradients)
        EXPECT_LT(largest(actual.gradients.at(parameter) - gradient),
                  tolerance_of(config) * largest(gradient) + rounding_of(expected))
            << name << " " << parameter;
    }
  }
}

std::vector<double> losses_of(const FitConfig& config, const SeriesTable& table) {
  std::vector<double> losses;
  const FitHooks hooks{.on_step = [&](std::int64_t, std::int64_t, double loss) { losses.push_back(loss); },
                       .on_epoch = {}};
  const FitResult result = fit(config, table, hooks);
  EXPECT_EQ(result.model->device(), config.device == "cpu" ? kCpu : kDevice);
  for (const EpochReport& epoch : result.epochs) losses.push_back(epoch.validation_loss);
  return losses;
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                 const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], kOtherOrderAdam * expected[i]) << what << " " << i;
}

TEST(DeviceForecast, EveryModelIsFittedAsOnTheCpu) {
  for (const std::string& model : forecast_models())
    expect_near(losses_of(tiny(model, "cuda"), hours()), losses_of(tiny(model, "cpu"), hours()), model);
}

TEST(DeviceForecast, WhatNobodyMeasuredCountsOnNoDevice) {
  const auto adapted = [](const std::string& device) {
    FitConfig c = tiny("nlinear", device);
    c.ema_decay = 0.9;
    c.clip_grad_norm = 0.5;
    c.loss = "mae";
    c.keep = "last";
    return c;
  };
  const std::vector<double> expected = losses_of(adapted("cpu"), hours_with_gaps());
  EXPECT_NE(expected, losses_of(adapted("cpu"), hours()));
  expect_near(losses_of(adapted("cuda"), hours_with_gaps()), expected, "gaps");
}

std::vector<double> epochs_of(const FitResult& result) {
  std::vector<double> losses;
  for (const EpochReport& e : result.epochs) losses.insert(losses.end(), {e.train_loss, e.validation_loss});
  return losses;
}

// PatchTST has dropout, and batch norms with running statistics.
FitConfig to_resume(const std::string& device) {
  FitConfig c = tiny("patchtst", device);
  c.model.heads = 1;
  c.model.attention_dropout = 0.2;
  c.ema_decay = 0.9;
  return c;
}

class DeviceFit : public ::testing::Test {
 protected:
  FitSaving saving(bool resume) const {
    return {.directory = directory_.at("unfinished"), .every_seconds = 0, .resume = resume};
  }
  // Killed in its second epoch, when the best weights of the first are kept, and gone on with elsewhere.
  FitResult resumed(const std::string& from, const std::string& to) const {
    EXPECT_THROW(fit(to_resume(from), table_, killed_after(3), saving(false)), Killed);
    FitResult result = fit(to_resume(to), table_, {}, saving(true));
    remove_fit_checkpoint(saving(false).directory);
    return result;
  }
  test::TemporaryDirectory directory_;
  const SeriesTable table_ = hours();
};

TEST_F(DeviceFit, OfOneDeviceGoesOnOnTheOther) {
  const std::vector<double> whole = epochs_of(fit(to_resume("cpu"), table_));
  expect_near(epochs_of(resumed("cpu", "cuda")), whole, "from the CPU");
  expect_near(epochs_of(resumed("cuda", "cpu")), whole, "to the CPU");
}

TEST_F(DeviceFit, ResumedHasTheBitsOfOneThatNeverStopped) {
  const FitResult whole = fit(to_resume("cuda"), table_), again = resumed("cuda", "cuda");
  EXPECT_EQ(epochs_of(whole), epochs_of(again));
  const auto weights = named_parameters(*whole.model), theirs = named_parameters(*again.model);
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_EQ(weights[i].second->value.to_vector<float>(), theirs[i].second->value.to_vector<float>())
        << weights[i].first;
}

std::string all_files(const std::string& directory) {
  std::string all;
  for (const char* file : {"/config.json", "/model.safetensors", "/calibration.safetensors"})
    all += read_file(directory + file);
  return all;
}

TEST_F(DeviceFit, IsSavedAsTheSameFilesFromEitherDevice) {
  const std::string fitted = directory_.at("fitted");
  save_forecaster(fitted, fit_forecaster(tiny("itransformer", "cuda"), table_));
  for (const Device device : {kCpu, kDevice}) {
    const Forecaster loaded = load_forecaster(fitted, device);
    EXPECT_EQ(loaded.model->device(), device);
    EXPECT_EQ(loaded.config.device, to_string(device));
    const std::string saved = directory_.at("again" + to_string(device));
    save_forecaster(saved, loaded);
    EXPECT_EQ(all_files(saved), all_files(fitted));
  }
}

TEST_F(DeviceFit, BeginsFromSavedWeights) {
  const std::string fitted = directory_.at("fitted");
  save_forecaster(fitted, fit_forecaster(tiny("dlinear", "cpu"), table_));
  const auto from = [&](const std::string& device) {
    FitConfig c = tiny("dlinear", device);
    c.from = fitted;
    return c;
  };
  expect_near(losses_of(from("cuda"), table_), losses_of(from("cpu"), table_), "from");
}

void expect_same(const SeriesForecast& a, const SeriesForecast& b) {
  EXPECT_EQ(a.times, b.times);
  for (std::size_t t = 0; t < a.values.size(); ++t) {
    for (std::size_t h = 0; h < a.values[t].size(); ++h) {
      const double tolerance = kOtherOrder * std::abs(b.values[t][h]);
      EXPECT_NEAR(a.values[t][h], b.values[t][h], tolerance);
      EXPECT_NEAR(a.low.at(60)[t][h], b.low.at(60)[t][h], tolerance);
    }
  }
}

TEST_F(DeviceFit, PredictsEvaluatesAndCalibratesAsOnTheCpu) {
  for (const std::string model : {"timesnet", "autoformer"}) {
    const std::string fitted = directory_.at(model);
    save_forecaster(fitted, fit_forecaster(tiny(model, "cpu"), table_));
    const Forecaster here = load_forecaster(fitted), there = load_forecaster(fitted, kDevice);
    expect_same(predict(there, table_, {60})[0], predict(here, table_, {60})[0]);
    const Metrics expected = evaluate(here, table_).methods[0], actual = evaluate(there, table_).methods[0];
    EXPECT_NEAR(actual.mse, expected.mse, kOtherOrder * expected.mse);
    EXPECT_NEAR(actual.mase, expected.mase, kOtherOrder * expected.mase);
    const DataSplit parts = split_windows(table_, here.config.split, here.config.scaler, 24, 6);
    EXPECT_LT(max_error(calibrate(*there.model, parts.validation).quantiles, here.calibration.quantiles),
              kOtherOrder);
  }
}

TEST_F(DeviceFit, ADeviceThatIsNotThereIsRefusedBeforeAnythingIsDone) {
  const auto refusal = [&](const std::string& device) {
    return message_of([&] { check_fit(tiny("dlinear", device), table_); });
  };
  EXPECT_NE(refusal("cuda:77").find("cuda:77"), std::string::npos);
  EXPECT_NE(refusal("tpu").find("tpu"), std::string::npos);
}

}  // namespace
}  // namespace ingot::forecast
