#include "ingot/cli/calibrate.h"

#include <memory>
#include <utility>
#include <vector>

#include "ingot/base/progress.h"
#include "ingot/cli/arguments.h"
#include "ingot/core/device_config.h"
#include "ingot/data/documents.h"
#include "ingot/infer/load.h"
#include "ingot/models/open_tokenizer.h"

namespace ingot::cli {

void add_calibration_options(Command& command, CalibrationFlags& flags) {
  command.option("--encoding", flags.encoding,
                 "What the text is encoded in, if not UTF-8: latin1, cp1252 ...");
  command.option("--window", flags.options.window, "Tokens that the model sees at once");
  command.option("--limit", flags.limit, "Tokens of the text to use; 0: all");
  add_device_option(command, flags.device);
}

namespace {

std::vector<std::int32_t> tokens_of(const std::string& model, const CalibrationFlags& flags) {
  std::vector<std::int32_t> ids =
      open_tokenizer(model).encode(data::read_documents(flags.text, flags.encoding));
  if (flags.limit > 0 && flags.limit < static_cast<std::int64_t>(ids.size()))
    ids.resize(static_cast<std::size_t>(flags.limit));
  return ids;
}

std::unique_ptr<LanguageModel> open_reference(const std::string& model, const CalibrationFlags& flags) {
  return infer::load_model(model, "f32", {}, choose_device(flags.device));
}

}  // namespace

ImportanceMatrix calibrate(const std::string& model, const CalibrationFlags& flags) {
  const std::vector<std::int32_t> ids = tokens_of(model, flags);
  const auto opened = open_reference(model, flags);
  ProgressBar bar({.label = "calibrating", .total = static_cast<std::int64_t>(ids.size())});
  ImportanceMatrix matrix =
      infer::measure_importance(*opened, ids, flags.options, [&](std::int64_t done) { bar.update(done); });
  bar.finish();
  matrix.datasets = {flags.text};
  return matrix;
}

InputProducts input_products(const std::string& model, const CalibrationFlags& flags) {
  struct Calibrated {
    Calibrated(std::unique_ptr<LanguageModel> model_, infer::LayerProducts products_)
        : model(std::move(model_)), products(std::move(products_)) {}
    std::unique_ptr<LanguageModel> model;
    infer::LayerProducts products;
  };
  auto opened = open_reference(model, flags);
  const LanguageModel& reference = *opened;
  const auto calibrated = std::make_shared<Calibrated>(
      std::move(opened), infer::LayerProducts(reference, tokens_of(model, flags), flags.options));
  return [calibrated](const std::string& weight) { return calibrated->products.of(weight); };
}

}  // namespace ingot::cli
