#include "ingot/infer/load.h"

#include "ingot/models/language/model_directory.h"

namespace ingot::infer {

std::unique_ptr<LanguageModel> load_model(const std::string& path, const std::string& format,
                                          const PackedCacheOptions& cache_options) {
  LoadOptions options{.copy = false, .trainable = false, .wide_vectors = true, .packed = true};
  if (format == "f32" || format == "bf16" || format == "f16") {
    options.dtype = format == "f32" ? DType::f32 : format == "bf16" ? DType::bf16 : DType::f16;
    options.packed = false;
    return load_language_model(path, options);
  }
  options.format = format;
  const ModelCheckpoint checkpoint = open_checkpoint(path);
  const auto cache = std::make_shared<PackedCache>(path, *checkpoint.weights, format, cache_options);
  options.store = cache;
  auto model = load_language_model(checkpoint, options);
  cache->save();
  return model;
}

std::unique_ptr<LanguageModel> load_rounded_model(const std::string& path, const std::string& format) {
  return load_language_model(
      path, {.dtype = DType::f32, .copy = false, .trainable = false, .format = format, .packed = false});
}

}  // namespace ingot::infer
