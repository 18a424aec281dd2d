#include "ingot/export/convert_adapter.h"

#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/export/model_files.h"
#include "ingot/models/adapter/open_adapter.h"
#include "ingot/models/architecture_check.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/weight_map.h"
#include "ingot/ops/cast.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

std::optional<DType> dtype_of_adapter(const std::string& name) {
  if (name.empty()) return std::nullopt;
  INGOT_CHECK(name == "f32" || name == "bf16" || name == "f16",
              InvalidConfig("dtype", fmt::format("is {}; adapters are f32, bf16 or f16", name)));
  return parse_dtype(name);
}

std::uint64_t write_directory(const std::string& path, const std::string& source, AdapterFile file,
                              const std::string& base, std::optional<DType> dtype) {
  std::uint64_t bytes = 0;
  for (auto& [module, tensors] : file.modules) {
    for (Tensor* tensor : {&tensors.a, &tensors.b, &tensors.magnitude, &tensors.whole, &tensors.tokens}) {
      if (!tensor->defined()) continue;
      if (dtype) *tensor = to(*tensor, *dtype);
      bytes += tensor->nbytes();
    }
  }
  if (file.config.base_model_name_or_path.empty()) file.config.base_model_name_or_path = base;
  AtomicDirectory out(path);
  if (is_peft_adapter(source))
    copy_companions(source, out.path());  // a tokenizer with its tokens, a template
  write_peft_file(out.path(), file);
  out.commit();
  return bytes;
}

}  // namespace

bool is_adapter(const std::string& source) { return is_peft_adapter(source) || is_gguf_adapter(source); }

std::string base_of_adapter(const std::string& source) {
  std::string named;
  if (is_peft_adapter(source)) {
    const std::string config = (fs::path(source) / "adapter_config.json").string();
    named = LoraConfig::from_json(read_file(config), config).base_model_name_or_path;
  }
  INGOT_CHECK(!named.empty(), InvalidConfig("base", fmt::format("is not given, and {} does not name its base "
                                                                "model: write --base MODEL, a directory or a "
                                                                "GGUF file",
                                                                source)));
  return named;
}

ConvertedModel convert_adapter(const ConvertOptions& o) {
  const bool to_gguf = fs::path(o.destination).extension() == ".gguf";
  const std::string format = to_gguf ? "gguf" : "safetensors";
  INGOT_CHECK((to_gguf || fs::path(o.destination).extension().empty()) && (o.to.empty() || o.to == format),
              InvalidConfig("destination", fmt::format("is {}; an adapter becomes NAME.gguf or a directory",
                                                       o.destination)));
  const std::optional<DType> dtype = dtype_of_adapter(o.dtype);
  const std::string path = o.base.empty() ? base_of_adapter(o.source) : o.base;
  const ModelCheckpoint checkpoint = open_checkpoint(path);
  const LanguageConfig config = with_head_of(
      *checkpoint.weights, LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path));
  ShapeRecorder shapes;
  LanguageModel model(config, shapes);
  const WeightMap map = LanguageModel::weight_map(config);
  const AdaptedParts parts({model, map});
  const AdapterBase base{.parts = parts, .map = map, .config = config};
  AdapterFile file = read_adapter_file(base, o.source);
  check_adapter(parts, file);
  const std::uint64_t bytes = to_gguf
                                  ? write_gguf_adapter(o.destination, base, file, dtype)
                                  : write_directory(o.destination, o.source, std::move(file), path, dtype);
  return {.path = o.destination, .format = format, .bytes = bytes, .stand_ins = {}};
}

}  // namespace ingot
