#include "ingot/cli/write_model.h"

#include <algorithm>
#include <filesystem>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/log.h"
#include "ingot/base/units.h"
#include "ingot/models/keras_hub.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/quant/block_format.h"
#include "ingot/weights/open.h"

namespace ingot::cli {

namespace fs = std::filesystem;

WrittenCallback WriteMeter::callback() {
  return [this](std::uint64_t bytes) {
    INGOT_CHECK(!interrupted(), Error("interrupted; nothing that was written is kept"));
    done_ += bytes;
    bar_.update(static_cast<std::int64_t>(done_), human_bytes(done_));
  };
}

bool is_model(const std::string& path) {
  return fs::is_directory(path) ? fs::exists(path + "/config.json") : path.ends_with(".gguf");
}

namespace {

/// Files beside the weights that only its own tools understand.
bool is_keras_preset(const std::string& model) {
  const std::string config = model + "/config.json";
  return fs::exists(config) && keras_hub_config(read_file(config), config).has_value();
}

}  // namespace

void copy_companions(const std::string& model, const std::string& directory) {
  if (!fs::is_directory(model) || is_keras_preset(model)) {
    if (has_tokenizer(model)) open_tokenizer(model).save_directory(directory);
    return;
  }
  for (const auto& entry : fs::directory_iterator(model)) {
    const std::string name = entry.path().filename().string(), ending = entry.path().extension().string();
    const bool text =
        ending == ".json" || ending == ".txt" || ending == ".model" || ending == ".jinja" || ending == ".md";
    const bool of_weights =
        name == "config.json" || name == "quantize_config.json" || name.ends_with(".index.json");
    if (entry.is_regular_file() && text && !of_weights)
      fs::copy_file(entry.path(), fs::path(directory) / name);
  }
}

namespace {

WrittenGguf write(const std::shared_ptr<const WeightSource>& source, GgufMetadata metadata,
                  std::vector<GgufTensor> tensors, const std::string& destination, const GgufPlan& plan) {
  const auto weights = encode_weights(source, plan.encoding, true);
  const bool quantised = std::ranges::any_of(weights->tensors(), [](const TensorInfo& info) {
    return quant::find_block_format(info.stored_as) != nullptr;
  });
  if (quantised) metadata.set("general.quantization_version", GgufValue::of_u32(2));
  WriteMeter meter(plan.label, weights->total_bytes());
  for (GgufTensor& tensor : gguf_tensors(*weights, meter.callback())) tensors.push_back(std::move(tensor));
  require_disk_space(destination, weights->total_bytes(), "the converted model");
  const std::string path = write_gguf_parts(destination, metadata, tensors, plan.max_bytes).front();
  return {path, meter.done()};
}

}  // namespace

WrittenGguf write_gguf_model(const std::string& from, const std::string& destination, const GgufPlan& plan) {
  if (from.ends_with(".gguf")) {
    const std::shared_ptr<const GgufSource> gguf = open_gguf(from);
    GgufMetadata metadata;
    for (const auto& [key, value] : gguf->fields().entries()) {
      if (!key.starts_with("split.")) metadata.set(key, value);
    }
    return write(gguf, std::move(metadata), {}, destination, plan);
  }
  GgufExport model = export_gguf(open_checkpoint(from));
  const std::int64_t rows = model.weights->get_metadata("token_embd.weight").shape.at(0);
  if (has_tokenizer(from) && !write_gguf_tokenizer(from, rows, model.metadata)) {
    log(LogLevel::warn, "ingot::convert",
        from +
            ": its tokenizer is of a kind that GGUF has no lists for; the file holds its tokenizer.json, "
            "which "
            "Ingot reads and llama.cpp does not");
  }
  return write(model.weights, std::move(model.metadata), std::move(model.extra), destination, plan);
}

WrittenGguf write_gguf_tensors(const std::shared_ptr<const WeightSource>& source,
                               const std::string& destination, const GgufPlan& plan) {
  return write(source, GgufMetadata(), {}, destination, plan);
}

}  // namespace ingot::cli
