#pragma once

#include <string>

#include "tests/forecast/support.h"

// Fits that an emulated device does in a second.
namespace ingot::forecast {

/// Reads 24 rows, forecasts 6, in two epochs.
inline FitConfig tiny(const std::string& model, const std::string& device) {
  FitConfig c = FitConfig::defaults(model, 6);
  c.model.lookback = 24;
  c.model.d_model = 8;
  c.model.heads = 2;
  c.model.layers = 1;
  c.model.d_ff = 16;
  c.model.kernels = 2;
  c.model.top_k = 2;
  c.model.factor = 1;
  c.model.modes = 6;
  c.model.wavelet_channels = 2;
  c.model.wavelet_order = 3;
  c.batch_size = 10;
  c.epochs = 2;
  c.min_epoch_steps = 1;
  c.device = device;
  return c;
}

/// 20 windows to fit to, which are two batches, two to validate with and nine to test with.
inline SeriesTable hours() { return table_of(hourly_csv(70)); }

}  // namespace ingot::forecast
