#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/report.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/forecaster.h"
#include "ingot/models/forecast/patchtst.h"
#include "ingot/train/run_metadata_file.h"
#include "ingot/weights/open.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot::forecast {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kKind = "ingot_forecast";

Json to_json(const Forecaster& f) {
  Json scales = Json::object();
  for (const auto& [id, s] : f.scales) scales[id] = {{"shift", s.shift}, {"scale", s.scale}};
  return {{"model_type", kKind},        {"columns", f.column_names},
          {"targets", f.targets},       {"frequency", f.frequency.name()},
          {"fit", to_json(f.config)},   {"fit_digest", f.fit_digest},
          {"scales", scales},           {"calibration_windows", f.calibration.windows},
          {"epochs", to_json(f.epochs)}};
}

Forecaster from_transformers(const std::string& text, const std::string& path) {
  Forecaster f;
  f.config.model = patchtst_from_transformers(text, path);
  f.config.scaler = ScalerKind::none;  // these networks scale each window themselves
  f.config.use_time_features = false;
  return f;
}

void read_json(Forecaster& f, const Json& json) {
  json.at("columns").get_to(f.column_names);
  json.at("targets").get_to(f.targets);
  f.frequency = parse_frequency(json.at("frequency").get<std::string>());
  f.calibration.windows = json.at("calibration_windows").get<std::int64_t>();
  for (const auto& [id, s] : json.at("scales").items()) {
    f.scales[id] = {s.at("shift").get<std::vector<double>>(), s.at("scale").get<std::vector<double>>()};
  }
  f.epochs = read_epochs(json.at("epochs"));
  f.fit_digest = json.value("fit_digest", "");
}

void check_consistent(const Forecaster& f, const std::string& path) {
  const std::size_t n = f.column_names.size();
  bool good = f.targets >= 1 && f.targets <= n && static_cast<std::int64_t>(n) == f.config.model.channels;
  for (const auto& [id, s] : f.scales) good = good && s.shift.size() == n && s.scale.size() == n;
  INGOT_CHECK(good, FormatError(path, -1, "columns",
                                "columns, targets, scales and the model's channels do not agree"));
}

// All but the tensors.
Forecaster described(const std::string& directory) {
  const std::string path = directory + "/config.json";
  INGOT_CHECK(std::filesystem::exists(path),
              IoError(directory, "is not a model directory: it holds no config.json"));
  const std::string text = read_file(path);
  const Json json = parse_json<Json>(text, path, "config.json");
  INGOT_CHECK(json.is_object(), FormatError(path, -1, "config.json", "is not a JSON object"));
  if (json.value("model_type", Json()) != Json(kKind)) return from_transformers(text, path);
  Forecaster f;
  try {
    read_json(f, json);
    Json fit = json.at("fit");
    fit.erase("from");  // the weights are here now; the other directory may be gone
    Config config = Config::parse(dump_json(fit), path);
    f.config = read_fit_config(config);
  } catch (const Json::exception& error) {
    throw FormatError(path, -1, "config.json", error.what());
  }
  check_consistent(f, path);
  f.metadata = readable_metadata(directory);
  return f;
}

}  // namespace

void check_model_directory(const std::string& directory) { const AtomicDirectory probe(directory); }

void save_forecaster(const std::string& directory, const Forecaster& f, const Report* report) {
  AtomicDirectory files(directory);
  write_file_atomically(files.file("config.json"), dump_json(to_json(f), 2) + "\n");
  std::vector<StoredTensor> tensors;
  for (const auto& [name, parameter] : named_parameters(*f.model)) {
    tensors.push_back(StoredTensor::of(name, parameter->value.detach()));
  }
  write_safetensors(files.file("model.safetensors"), tensors);
  if (f.calibration.quantiles.defined()) {
    const std::vector<StoredTensor> quantiles{StoredTensor::of("quantiles", f.calibration.quantiles)};
    write_safetensors(files.file("calibration.safetensors"), quantiles);
  }
  write_metadata(f.metadata, files.path());
  if (report != nullptr) write_report(files.file("report.html"), *report);
  files.commit();
}

Forecaster load_forecaster(const std::string& directory, Device device) {
  Forecaster f = described(directory);
  f.config.device = to_string(device);
  f.model = ForecastModel::from_weights(f.config.model, *open_weights(weights_path(directory)),
                                        {.dtype = DType::f32, .device = device});
  const std::string quantiles = directory + "/calibration.safetensors";
  if (f.calibration.windows > 0) {
    f.calibration.quantiles = open_weights(quantiles)->load_tensor("quantiles");
    const Shape expected{99, static_cast<std::int64_t>(f.targets), f.config.model.horizon};
    INGOT_CHECK(f.calibration.quantiles.shape() == expected,
                ShapeMismatch(quantiles + ": quantiles", expected.to_vector(),
                              f.calibration.quantiles.shape().to_vector()));
  }
  return f;
}

FitConfig fitted_config(const std::string& directory) { return described(directory).config; }

std::string weights_path(const std::string& directory) { return directory + "/model.safetensors"; }

}  // namespace ingot::forecast
