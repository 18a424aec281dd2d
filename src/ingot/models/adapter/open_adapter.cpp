#include "ingot/models/adapter/open_adapter.h"

#include <utility>

#include "ingot/base/error.h"
#include "ingot/models/language/vocabulary.h"

namespace ingot {

void check_is_adapter(const std::string& path) {
  INGOT_CHECK(is_peft_adapter(path) || is_gguf_path(path),
              IoError(path,
                      "is not an adapter: a directory with adapter_config.json, or a GGUF file of an "
                      "adapter, was expected"));
}

AdapterFile read_adapter_file(const AdapterBase& base, const std::string& path) {
  check_is_adapter(path);
  return is_gguf_path(path) ? read_gguf_adapter(base, path) : read_peft_file(base.map, path);
}

PeftAdapter open_adapter(const AdapterBase& base, const std::string& path, const std::string& name,
                         float weight) {
  return place_adapter(base.parts, base.map, read_adapter_file(base, path), name, weight);
}

void grow_for_adapter(LanguageModel& model, const std::string& path) {
  check_is_adapter(path);
  if (is_peft_adapter(path))
    grow_vocabulary(model, vocabulary_of_peft_adapter(LanguageModel::weight_map(model.config), path));
}

LoraConfig read_adapter(LanguageModel& model, const std::string& path, const std::string& name) {
  grow_for_adapter(model, path);
  const WeightMap map = LanguageModel::weight_map(model.config);
  const AdaptedParts parts({model, map});
  PeftAdapter adapter = open_adapter({.parts = parts, .map = map, .config = model.config}, path, name);
  LoraConfig config = adapter.config;
  put_on(std::move(adapter));
  return config;
}

}  // namespace ingot
