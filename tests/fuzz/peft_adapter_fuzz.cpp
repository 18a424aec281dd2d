// An adapter of PEFT's: its adapter_config.json, a record separator, then its adapter_model.safetensors. Put
// on a small model and merged into it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/temporary_files.h"
#include "tests/support/source_dir.h"

#include "ingot/base/error.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/runtime/initialize.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  [[maybe_unused]] static const bool kReady = (ingot::initialize(), true);
  static const ingot::test::FuzzDirectory kDirectory;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view config = all.substr(0, all.find('\x1E'));
  kDirectory.write("adapter_config.json", config);
  kDirectory.write("adapter_model.safetensors", all.substr(std::min(size, config.size() + 1)));
  const auto model =
      ingot::load_language_model(ingot::test::source_dir() + "/tests/models/goldens/llama_bias_untied");
  const ingot::WeightMap map = ingot::LanguageModel::weight_map(model->config);
  try {
    ingot::read_peft_adapter({*model, map}, kDirectory.path());
    ingot::merge_adapters(*model);
  } catch (const ingot::Error&) {
  }
  return 0;
}
