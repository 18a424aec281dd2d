#include "ingot/infer/load.h"

#include "ingot/models/language/model_directory.h"

namespace ingot::infer {

std::unique_ptr<LanguageModel> load_model(const std::string& path, const std::string& format) {
  LoadOptions options{.copy = false, .trainable = false, .wide_vectors = true, .packed = true};
  if (format == "f32" || format == "bf16" || format == "f16") {
    options.dtype = format == "f32" ? DType::f32 : format == "bf16" ? DType::bf16 : DType::f16;
    options.packed = false;
  } else {
    options.format = format;
  }
  return load_language_model(path, options);
}

}  // namespace ingot::infer
