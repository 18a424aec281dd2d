#include "tests/forecast/support.h"

#include "ingot/base/config.h"
#include "ingot/forecast/forecaster.h"

namespace ingot::forecast {
namespace {

FitConfig read(const std::string& yaml) {
  Config config = Config::parse(yaml);
  return read_fit_config(config);
}

class FitFrom : public ::testing::Test {
 protected:
  // A model of odd sizes, fitted and saved.
  Forecaster saved(const std::string& model, const std::string& more = "") const {
    FitConfig c =
        read(fmt::format("{{model: {}, horizon: 12, lookback: 48, d_model: 8, heads: 2, layers: 1, d_ff: 12, "
                         "learning_rate: 0.001, "
                         "epochs: 1, min_epoch_steps: 1, scaler: min_max, use_time_features: false{}}}",
                         model, more));
    Forecaster f = fit_forecaster(c, table_);
    save_forecaster(path(), f);
    return f;
  }
  std::string path() const { return directory_.at("model"); }
  FitConfig from(const std::string& more) const {
    return read(fmt::format("{{from: {}, min_epoch_steps: 1{}}}", path(), more));
  }

  test::TemporaryDirectory directory_;
  SeriesTable table_ = table_of(hourly_csv(700));
};

TEST_F(FitFrom, BeginsWithTheWeightsSizesAndInputsOfTheModel) {
  for (const std::string& model : forecast_models()) {
    const Forecaster before = saved(model);
    const FitConfig c = from(", learning_rate: 1e-30, epochs: 1");
    EXPECT_EQ(c.model.model, model);
    EXPECT_EQ(c.scaler, ScalerKind::min_max);
    const FitResult after = fit(c, table_);
    // PatchTST's running statistics move on, whatever the learning rate.
    const double part = model == "patchtst" ? 0.2 : 1e-5;
    EXPECT_NEAR(after.best_validation_loss / before.epochs[0].validation_loss, 1, part) << model;
  }
}

TEST_F(FitFrom, LearnsOnWithEveryModel) {
  for (const std::string& model : forecast_models()) {
    const Forecaster before = saved(model);
    const FitResult after = fit(from(", learning_rate: 0.001, epochs: 2"), table_);
    EXPECT_LT(after.epochs[0].train_loss, before.epochs[0].train_loss) << model;
  }
}

TEST_F(FitFrom, OtherNumbersOfColumnsFitWhereWeightsDoNotKnowThem) {
  TableOptions one_column;
  one_column.columns = {"load"};
  const SeriesTable narrow = table_of(hourly_csv(700), one_column);
  for (const char* model : {"dlinear", "nlinear", "patchtst", "itransformer"}) {
    saved(model);
    EXPECT_NO_THROW(check_fit(from(""), narrow)) << model;
  }
  for (const char* model : {"timesnet", "autoformer", "fedformer"}) {
    saved(model);
    const std::string message = message_of([&] { check_fit(from(""), narrow); });
    EXPECT_NE(message.find("of another shape"), std::string::npos) << model << ": " << message;
  }
}

TEST_F(FitFrom, ATransformersCheckpointIsFineTuned) {
  std::string csv = "ds,a,b\n";  // not the number of columns that it was made with
  for (int i = 0; i < 400; ++i) csv += fmt::format("{},{},{}\n", i, std::sin(i * 0.5), std::cos(i * 0.3));
  const FitConfig c = read(
      fmt::format("{{from: {}/tests/models/goldens/forecast/transformers_default, epochs: 6, batch_size: 8, "
                  "learning_rate: 0.003}}",
                  test::source_dir()));
  EXPECT_EQ(c.model.model, "patchtst");
  EXPECT_EQ(c.model.horizon, 7);
  const FitResult r = fit(c, table_of(csv));
  EXPECT_LT(r.epochs.back().train_loss, 0.8 * r.epochs.front().train_loss);
}

TEST_F(FitFrom, TheModelMayBeReplacedByWhatCameOfIt) {
  saved("dlinear");
  Forecaster again = fit_forecaster(from(", epochs: 1"), table_);
  save_forecaster(path(), again);
  const Forecaster loaded = load_forecaster(path());
  EXPECT_EQ(loaded.config.from, "");  // cross-validation of it begins anew
  EXPECT_EQ(predict(loaded, table_)[0].values, predict(again, table_)[0].values);
}

TEST_F(FitFrom, SaysWhatDoesNotFit) {
  saved("nlinear");
  EXPECT_NE(message_of([&] { from(", model: dlinear"); }).find("model: is dlinear, but"), std::string::npos);
  const std::string sizes = message_of([&] { check_fit(from(", horizon: 24"), table_); });
  EXPECT_NE(sizes.find("[24, 48]"), std::string::npos) << sizes;
  EXPECT_NE(sizes.find(path()), std::string::npos) << sizes;
  EXPECT_NE(message_of([&] { read("{from: /nowhere}"); }).find("/nowhere: is not a model directory"),
            std::string::npos);
  std::filesystem::remove(path() + "/model.safetensors");
  EXPECT_NE(message_of([&] { check_fit(from(""), table_); }).find("model.safetensors"), std::string::npos);
}

TEST_F(FitFrom, IsNotResumedFromOtherWeights) {
  saved("nlinear");
  const FitSaving saving{.directory = directory_.at("unfinished"), .every_seconds = 0, .resume = true};
  FitHooks stop;
  stop.on_epoch = [](const EpochReport&) { return true; };
  const FitConfig c = from(", epochs: 3");
  fit(c, table_, stop, saving);
  EXPECT_NO_THROW(fit(c, table_, stop, saving));
  saved("nlinear", ", seed: 7");
  const std::string message = message_of([&] { fit(c, table_, stop, saving); });
  EXPECT_NE(message.find("from: is"), std::string::npos) << message;
}

}  // namespace
}  // namespace ingot::forecast
