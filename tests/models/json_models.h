#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/models/goldens.h"
#include "tests/support/op_case.h"
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/files.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/elementwise.h"

// Models whose config.json is a golden's, with some keys changed.
namespace ingot::test {

using Json = nlohmann::ordered_json;

inline Json golden_json(const std::string& name) {
  return Json::parse(read_file(golden_path(name) + "/config.json"));
}

inline LanguageConfig config_of(const Json& json) {
  return LanguageConfig::from_json(json.dump(), "config.json");
}

inline Tensor logits_of(const std::string& path, const Tensor& tokens) {
  const NoGrad no_grad;
  const auto model = load_language_model(path);
  return model->logits(model->hidden({.tokens = tokens}));
}

/// Of random numbers throughout: parameters of a model from scratch may be 0, and what they weigh unseen.
inline void write_new_model(const std::string& directory, const Json& json) {
  const LanguageConfig config = config_of(json);
  InitSource init(1);
  LanguageModel model(config, init);
  std::map<std::string, Tensor> weights = parameter_map(model);
  std::uint64_t seed = 1;
  for (auto& [name, tensor] : weights) {
    const double middle = name.find("norm") == std::string::npos ? 0 : 1;
    tensor = testing::randn(tensor.shape(), seed++, tensor.dtype()) * 0.2 + middle;
  }
  write_language_model(directory, config, weights);
}

}  // namespace ingot::test
