#pragma once

#include <string>

#include "tests/models/goldens.h"
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/files.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"

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

/// Of a model from scratch.
inline void write_new_model(const std::string& directory, const Json& json) {
  const LanguageConfig config = config_of(json);
  InitSource init(1);
  LanguageModel model(config, init);
  write_language_model(directory, config, parameter_map(model));
}

}  // namespace ingot::test
