#pragma once

#include <map>
#include <string>

#include "tests/support/source_dir.h"

#include "ingot/base/config.h"
#include "ingot/models/forecast/config.h"
#include "ingot/weights/open.h"

// The files of tools/goldens/forecast_models.py.
namespace ingot::test {

inline std::string forecast_golden(const std::string& name) {
  return source_dir() + "/tests/models/goldens/forecast/" + name;
}

inline std::map<std::string, Tensor> load_tensors(const std::string& path) {
  std::map<std::string, Tensor> tensors;
  const auto source = open_weights(path);
  for (const TensorInfo& info : source->tensors()) tensors[info.name] = source->load_tensor(info.name);
  return tensors;
}

/// The tensors whose names start so, without that start.
inline std::map<std::string, Tensor> with_prefix(const std::map<std::string, Tensor>& all,
                                                 const std::string& prefix) {
  std::map<std::string, Tensor> found;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) found[name.substr(prefix.size())] = tensor;
  }
  return found;
}

/// The network that a file is of.
inline ForecastModelConfig forecast_golden_config(const std::string& path) {
  Config config = Config::parse(open_weights(path)->metadata().at("config"), path);
  const auto model = config.root().get("model", "");
  const ForecastModelConfig c = read_forecast_model(config.root(), ForecastModelConfig::defaults(model));
  config.finish();
  return c;
}

}  // namespace ingot::test
