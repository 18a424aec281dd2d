#include "ingot/forecast/fit_config.h"

#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/core/device.h"
#include "ingot/forecast/forecaster.h"
#include "ingot/forecast/table/date_column.h"
#include "ingot/kernels/matmul_precision.h"

namespace ingot::forecast {
namespace {

constexpr std::int64_t kMostEpochSteps = 1'000'000'000;

void read_table(const ConfigReader& r, FitConfig& c) {
  c.data = r.get("data", c.data);
  c.table.layout = r.choice("layout", c.table.layout, {"auto", "wide", "long"});
  c.table.time_column = r.get("time_column", c.table.time_column);
  c.table.id_column = r.get("id_column", c.table.id_column);
  c.table.targets = r.get("targets", c.table.targets);
  c.table.columns = r.get("columns", c.table.columns);
  c.table.fill = parse_fill_method(r.get("fill", "interpolate"));
  c.table.frequency = r.get("frequency", c.table.frequency);
  c.table.sort = r.get("sort", c.table.sort);
  c.table.date_format = r.get("date_format", c.table.date_format);
  check_date_choice(c.table.date_format, "date_format");
  c.table.decimal = parse_decimal_mark(r.get("decimal", std::string("auto")));
  c.split.kind = r.choice("split", c.split.kind, {"ratio", "ett"});
  c.split.train =
      r.get("train_fraction", c.split.train, {.min = 0, .max = 1, .above_min = true, .below_max = true});
  c.split.test = r.get("test_fraction", c.split.test, fraction());
  c.scaler = parse_scaler(r.get("scaler", std::string(name(c.scaler))));
}

void read_training(const ConfigReader& r, FitConfig& c) {
  r.alias("lr", "learning_rate");
  // The names that `ingot train` has for the same.
  for (const char* name : {"per_device_train_batch_size", "micro_batch_size"}) r.alias(name, "batch_size");
  r.alias("num_epochs", "epochs");
  r.alias("early_stopping_patience", "patience");
  r.alias("max_grad_norm", "clip_grad_norm");
  r.alias("train_seed", "seed");
  for (const char* name : {"lr_scheduler_type", "lr_scheduler"}) r.alias(name, "schedule");
  c.use_time_features = r.get("use_time_features", c.use_time_features);
  c.learning_rate = r.get("learning_rate", c.learning_rate, positive());
  c.batch_size = r.get("batch_size", c.batch_size, at_least(1));
  c.epochs = r.get("epochs", c.epochs, at_least(1));
  c.min_epoch_steps = r.get("min_epoch_steps", c.min_epoch_steps, between(1, kMostEpochSteps));
  c.patience = r.get("patience", c.patience, at_least(0));
  c.schedule = r.choice("schedule", c.schedule, {"halve", "decay", "cosine", "constant"});
  c.keep = r.choice("keep", c.keep, {"best", "last"});
  c.loss = r.choice("loss", c.loss, {"mse", "mae"});
  c.clip_grad_norm = r.get("clip_grad_norm", c.clip_grad_norm, at_least(0));
  c.ema_decay = r.get("ema_decay", c.ema_decay, {.min = 0, .max = 1, .below_max = true});
  c.seed = r.get("seed", c.seed);
  c.drop_last = r.get("drop_last", c.drop_last);
  c.matmul_precision = r.choice("matmul_precision", c.matmul_precision, {"highest", "medium"});
  c.device = r.get("device", c.device);
}

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
  INGOT_CHECK(learning_rate > 0,
              InvalidConfig("learning_rate", fmt::format("must be positive, got {}", learning_rate)));
  INGOT_CHECK(batch_size > 0,
              InvalidConfig("batch_size", fmt::format("must be at least 1, got {}", batch_size)));
  INGOT_CHECK(epochs > 0, InvalidConfig("epochs", fmt::format("must be at least 1, got {}", epochs)));
  INGOT_CHECK(min_epoch_steps >= 1 && min_epoch_steps <= kMostEpochSteps,
              InvalidConfig("min_epoch_steps",
                            fmt::format("must be from 1 to {}, got {}", kMostEpochSteps, min_epoch_steps)));
  INGOT_CHECK(ema_decay >= 0 && ema_decay < 1,
              InvalidConfig("ema_decay", fmt::format("must be in [0, 1), got {}", ema_decay)));
  static_cast<void>(kernels::parse_matmul_precision(matmul_precision));
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
  read_table(root, c);
  read_training(root, c);
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
