#include "ingot/export/gguf.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/log.h"
#include "ingot/infer/sentence_gguf.h"
#include "ingot/models/encoder/family.h"
#include "ingot/models/encoder/gguf_encoder.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/models/opened_config.h"
#include "ingot/quant/block_format.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

WrittenModel write_encoded(const std::shared_ptr<const WeightSource>& source, GgufMetadata metadata,
                           std::vector<GgufTensor> tensors, const std::string& destination,
                           const GgufPlan& plan, const WriteProgress& progress) {
  WrittenModel written;
  const auto weights = encode_weights(source, plan.encoding, true, &written.stand_ins);
  const bool quantized = std::ranges::any_of(weights->tensors(), [](const TensorInfo& info) {
    return quant::find_block_format(info.stored_as) != nullptr;
  });
  if (quantized) metadata.set("general.quantization_version", GgufValue::of_u32(2));
  const std::uint64_t bytes = written.bytes = weights->total_bytes();
  for (GgufTensor& tensor : gguf_tensors(*weights, count_written(progress, bytes)))
    tensors.push_back(std::move(tensor));
  require_disk_space(destination, bytes, "the converted model");
  written.path = write_gguf_parts(destination, metadata, tensors, plan.max_bytes).front();
  return written;
}

// Of texts' vectors, as llama.cpp numbers it; and what it leaves to its callers, under keys of ours.
void write_sentences(const std::string& directory, bool classifies, GgufExport& model) {
  GgufMetadata& metadata = model.metadata;
  const SentenceConfig sentences = SentenceConfig::from_directory(directory);
  const std::string architecture = metadata.text("general.architecture").value_or("");
  metadata.set(architecture + ".pooling_type",
               GgufValue::of_u32(classifies ? kRankPooling : gguf_pooling_type(sentences, directory)));
  for (GgufTensor& tensor : write_sentence_fields(sentences, directory, metadata))
    model.extra.push_back(std::move(tensor));
}

bool is_encoder(const std::string& directory) {
  const OpenedConfig opened = open_config(directory);
  return opened.info != nullptr && find_encoder_family(opened.info->name) != nullptr;
}

GgufExport export_model(const std::string& from) {
  const bool encoder = is_encoder(from);
  GgufExport model = encoder ? export_encoder_gguf(from) : export_gguf(open_checkpoint(from));
  if (encoder || std::filesystem::exists(from + "/modules.json"))
    write_sentences(from, model.weights->is_available("cls.output.weight"), model);
  return model;
}

}  // namespace

WrittenModel write_gguf_model(const std::string& from, const std::string& destination, const GgufPlan& plan,
                              const WriteProgress& progress) {
  if (from.ends_with(".gguf")) {
    const std::shared_ptr<const GgufSource> gguf = open_gguf(from);
    GgufMetadata metadata;
    for (const auto& [key, value] : gguf->fields().entries()) {
      if (!key.starts_with("split.")) metadata.set(key, value);
    }
    return write_encoded(gguf, std::move(metadata), {}, destination, plan, progress);
  }
  GgufExport model = export_model(from);
  const std::int64_t rows = model.weights->get_metadata("token_embd.weight").shape.at(0);
  if (!write_gguf_tokenizer(from, rows, model.metadata)) {
    model.metadata.set("tokenizer.ggml.model", GgufValue::of_string("none"));  // readers ask for the key
    log(LogLevel::warn, "ingot::convert",
        from + (has_tokenizer(from)
                    ? ": its tokenizer is of a kind that GGUF has no lists for; the file holds its "
                      "tokenizer.json, which Ingot reads and llama.cpp does not"
                    : ": has no tokenizer; the file takes and gives ids alone"));
  }
  return write_encoded(model.weights, std::move(model.metadata), std::move(model.extra), destination, plan,
                       progress);
}

WrittenModel write_gguf_tensors(const std::shared_ptr<const WeightSource>& source,
                                const std::string& destination, const GgufPlan& plan,
                                const WriteProgress& progress) {
  return write_encoded(source, GgufMetadata(), {}, destination, plan, progress);
}

}  // namespace ingot
