#pragma once

#include <cstdint>
#include <string>

#include "ingot/cli/command.h"
#include "ingot/infer/calibration.h"
#include "ingot/weights/quantized_writer.h"

namespace ingot::cli {

struct CalibrationFlags {
  std::string text, encoding;
  infer::CalibrationOptions options;
  std::int64_t limit = 0;
  std::string device = "auto";
};

/// --encoding, --window, --limit and --device.
void add_calibration_options(Command& command, CalibrationFlags& flags);
/// Opens the model, runs the text through it, with a progress bar.
ImportanceMatrix calibrate(const std::string& model, const CalibrationFlags& flags);
/// The same for GPTQ: the text runs when the first layer is asked for.
InputProducts input_products(const std::string& model, const CalibrationFlags& flags);

}  // namespace ingot::cli
