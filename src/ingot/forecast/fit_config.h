#pragma once

#include <cstdint>
#include <string>

#include "ingot/forecast/windows.h"
#include "ingot/models/forecast/config.h"
#include "ingot/optim/schedule.h"

namespace ingot {
class Config;
}

namespace ingot::forecast {

/// Everything that decides how a model comes out of a table, and where.
struct FitConfig {
  std::string data;  ///< path of the CSV file
  TableOptions table;
  SplitOptions split;
  ScalerKind scaler = ScalerKind::standard;
  ForecastModelConfig model;  ///< channels and time_features follow from the data
  /// Directory of the model whose weights the fit begins from (load_forecaster); empty: they are drawn.
  std::string from;
  bool use_time_features = true;

  double learning_rate = 1e-3;
  std::int64_t batch_size = 32;
  std::int64_t epochs = 10;
  /// A table that is too short for so many steps in one pass is gone through several times in an epoch: the
  /// schedule and `patience` count epochs, and would end its training before it has learnt anything.
  std::int64_t min_epoch_steps = 1;
  std::int64_t patience = 3;       ///< epochs without a lower validation loss before it ends; 0: never
  std::string schedule = "halve";  ///< "halve" (type1), "decay" (type3), "cosine" or "constant"
  std::string keep = "best";       ///< the weights of the epoch with the least validation loss, or "last"
  std::string loss = "mse";        ///< or "mae"
  bool refit = false;  ///< then fit anew to all rows, for as many epochs as were best: for use, not for tests
  double clip_grad_norm = 0;  ///< 0: off
  /// Validate, and keep, an average of the weights of earlier steps instead of those of the last: each step
  /// adds (1 - ema_decay) of the difference (optim/ema.h, with warm-up). 0: off.
  double ema_decay = 0;
  std::uint64_t seed = 2021;
  /// Leave out an epoch's last batch when it is not full and not the only one: a step on one or two windows
  /// is as large as any other, and the last before the validation.
  bool drop_last = false;
  std::string matmul_precision = "highest";  ///< or "medium": kernels/matmul_precision.h
  /// What ranks share out: 0 nothing, 1 the optimizer's state, 2 gradients too. No part of what identifies a
  /// fit, as it changes no bit of it.
  std::int64_t zero_stage = 0;
  /// "auto": a CUDA GPU where there is one, else the CPU; or "cpu", "cuda", "cuda:N". No part of what
  /// identifies a fit or describes a model: either may be used on another device.
  std::string device = "auto";

  /// The model's sizes and the training of its paper on ETTh1. InvalidConfig for an unknown model.
  static FitConfig defaults(const std::string& model, std::int64_t horizon = 96);
  /// Throws InvalidConfig naming the key.
  void validate() const;
};

/// Reads a configuration (docs/forecasting.md lists the keys): `model` and `horizon` choose the defaults,
/// every other key changes one. `from` takes the model and its sizes, the scaler and the use of calendar
/// features from that directory: errors as load_forecaster's. Calls finish(), so an unknown key is an error.
FitConfig read_fit_config(Config& config);

/// The schedule of a fit whose epochs take so many steps.
LrSchedule fit_schedule(const FitConfig& config, std::int64_t epoch_steps);

}  // namespace ingot::forecast
