#include "ingot/export/quantize.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/export/awq.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/config.h"
#include "ingot/quant/block_format.h"
#include "ingot/quant/packed_matrix.h"
#include "ingot/weights/quantized_writer.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

// The matrices of a transformer's layers: what other programs call its Linear modules, the router and the
// head not counted.
bool is_linear(const TensorInfo& info) {
  return info.shape.size() == 2 && info.name.ends_with(".weight") &&
         info.name.find(".layers.") != std::string::npos && !info.name.ends_with(".gate.weight");
}

WrittenModel write_quantized_directory(const QuantizeOptions& o, const WriteProgress& progress) {
  const ModelCheckpoint checkpoint = open_checkpoint(o.source);
  const LanguageConfig config = LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path);
  INGOT_CHECK(
      config.model_type != "gpt2",
      NotImplemented("a quantized safetensors directory of a GPT-2: its layers are not Linear modules, and "
                     "other programs do not read them so; write a .gguf file instead"));
  std::shared_ptr<const WeightSource> weights = checkpoint.weights;
  InputProducts products = o.products;
  if (o.products && o.rounding != CalibratedRounding::gptq) {
    const auto scaled = std::make_shared<const AwqSource>(*checkpoint.weights, config, o.products,
                                                          *quant::find_group_options(o.format));
    products = {};
    if (o.rounding == CalibratedRounding::awq_gptq)
      products = [scaled](const std::string& weight) { return scaled->products_of(weight); };
    weights = scaled;
  }
  const QuantizedCheckpoint plan = quantize_checkpoint(*weights, o.format, is_linear);
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : plan.tensors) bytes += estimate_tensor_bytes(tensor.shape, tensor.dtype);
  require_disk_space(o.destination, bytes, "the quantized model");
  const QuantizedCheckpoint counted =
      quantize_checkpoint(*weights, o.format, is_linear, count_written(progress, bytes), products);
  Json json = parse_json<Json>(checkpoint.config_json, checkpoint.weights->location() + ": config.json");
  json["quantization_config"] = parse_json<Json>(plan.config, "quantization_config");
  AtomicDirectory out(o.destination);
  write_file_atomically(out.file("config.json"), dump_json(json, 2) + "\n");
  copy_companions(o.source, out.path());
  SafetensorsOptions options;
  options.max_shard_bytes = o.max_shard_bytes;
  write_safetensors_directory(out.path(), counted.tensors, options);
  out.commit();
  return {.path = o.destination, .bytes = bytes, .stand_ins = plan.stand_ins};
}

}  // namespace

void check_quantized_format(const std::string& format) {
  if (const auto* blocks = quant::find_block_format(format)) quant::check_is_written(*blocks);
  const std::vector<std::string> known = quant::quantized_formats();
  INGOT_CHECK(std::ranges::find(known, format) != known.end(),
              InvalidConfig("format", fmt::format("'{}' is not a format{}; there are: {}", format,
                                                  did_you_mean(format, known), fmt::join(known, ", "))));
}

WrittenModel quantize_model(const QuantizeOptions& o, const WriteProgress& progress) {
  check_quantized_format(o.format);
  check_destination(o.source, o.destination, {".gguf"});
  if (!o.destination.ends_with(".gguf")) {
    INGOT_CHECK(
        !o.products || quant::find_group_options(o.format),
        InvalidConfig("--calibrate", fmt::format("GPTQ rounds to groups of integers (int4-g128, int8 ...), "
                                                 "not to {}",
                                                 o.format)));
    INGOT_CHECK(
        o.importance == nullptr,
        InvalidConfig("--imatrix", fmt::format("is for GGUF's formats, in NAME.gguf; '{}' is a directory",
                                               o.destination)));
    return write_quantized_directory(o, progress);
  }
  const quant::BlockFormat* blocks = quant::find_block_format(o.format);
  std::vector<std::string> known;
  for (const quant::BlockFormat& block : quant::block_formats())
    if (block.is_written()) known.emplace_back(block.name);
  INGOT_CHECK(
      blocks != nullptr,
      InvalidConfig("format",
                    fmt::format("'{}' is none that GGUF files hold: {}. A directory holds {}", o.format,
                                fmt::join(known, ", "), fmt::join(quantized_checkpoint_formats(), ", "))));
  return write_gguf_model(o.source, o.destination,
                          {.encoding = {.dtype = std::nullopt, .blocks = blocks, .importance = o.importance}},
                          progress);
}

}  // namespace ingot
