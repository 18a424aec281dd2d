#pragma once

#include <memory>
#include <string>

#include "tests/support/source_dir.h"

#include "ingot/models/language/model_directory.h"

namespace ingot::test {

/// A model of tests/models/goldens, to be read only.
inline std::unique_ptr<LanguageModel> golden_model(const std::string& name) {
  return load_language_model(source_dir() + "/tests/models/goldens/" + name, {.trainable = false});
}

}  // namespace ingot::test
