#include "ingot/forecast/fit_config.h"

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/core/device.h"
#include "ingot/forecast/fit_keys.h"
#include "ingot/forecast/forecaster.h"
#include "ingot/forecast/table/date_column.h"

namespace ingot::forecast {
namespace {

// What weights expect of the network around them and of its inputs.
void take_sizes(FitConfig& c, const FitConfig& before) {
  INGOT_CHECK(c.model.model == before.model.model,
              InvalidConfig("model", fmt::format("is {}, but {} is a {}; leave the key out to begin from its "
                                                 "weights",
                                                 c.model.model, c.from, before.model.model)));
  const ForecastModelConfig unset;
  const std::int64_t horizon = c.model.horizon;
  c.model = before.model;
  c.model.horizon = horizon;
  c.model.channels = unset.channels;
  c.model.time_features = unset.time_features;
  c.model.future_inputs = unset.future_inputs;
  c.table.future = before.table.future;
  c.table.holidays = before.table.holidays;
  c.scaler = before.scaler;
  c.use_time_features = before.use_time_features;
}

}  // namespace

FitConfig FitConfig::defaults(const std::string& model, std::int64_t horizon) {
  FitConfig c;
  c.model = ForecastModelConfig::defaults(model, horizon);
  // Here and below fewer than the published protocol takes on ETTh1.
  c.min_epoch_steps = 200;
  if (model == "dlinear" || model == "nlinear") {
    c.learning_rate = 0.005;
  } else if (model == "patchtst") {
    c.learning_rate = 1e-4;
    c.batch_size = 128;
    c.min_epoch_steps = 50;
    c.epochs = 100;
    c.patience = 100;
    c.schedule = "decay";
  } else {
    c.learning_rate = 1e-4;
    if (model == "itransformer") c.seed = 2023;
    if (model == "autoformer" || model == "fedformer") {
      c.min_epoch_steps = 50;  // a step of theirs takes as long as many of the others'
      c.drop_last = true;
    }
  }
  return c;
}

void FitConfig::validate() const {
  model.validate();
  split.validate();
  fit_keys().check(*this);
  if (device != "auto") static_cast<void>(parse_device(device));
}

FitConfig read_fit_config(Config& config) {
  const ConfigReader root = config.root();
  const std::string from = root.get("from", std::string());
  const FitConfig before = from.empty() ? FitConfig::defaults("dlinear") : fitted_config(from);
  const std::string model = root.choice("model", before.model.model, forecast_models());
  FitConfig c = FitConfig::defaults(model, root.get("horizon", before.model.horizon, at_least(1)));
  c.from = from;
  if (!from.empty()) take_sizes(c, before);
  fit_keys().read(root, c);
  check_date_choice(c.table.date_format, "date_format");
  c.model = read_forecast_model(root, c.model);
  config.finish();
  c.validate();
  return c;
}

LrSchedule fit_schedule(const FitConfig& c, std::int64_t epoch_steps) {
  // "halve" is type1 of the published code, which changes the rate after an epoch to the value that the epoch
  // itself should have had: the first two epochs are alike. "decay" is its type3.
  const auto after = [&](std::int64_t epochs, double gamma) {
    return schedule::Sequence{{{schedule::Constant{}, epochs}, {schedule::Exponential{gamma}, 0}}};
  };
  LrSchedule of_epoch = schedule::Constant{};
  if (c.schedule == "halve") of_epoch = after(1, 0.5);
  if (c.schedule == "decay") of_epoch = after(3, 0.9);
  if (c.schedule == "cosine") of_epoch = schedule::Cosine{.steps = c.epochs};
  return schedule::PerEpoch{epoch_steps, of_epoch};
}

}  // namespace ingot::forecast
