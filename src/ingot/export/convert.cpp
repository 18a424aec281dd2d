#include "ingot/export/convert.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/log.h"
#include "ingot/export/convert_adapter.h"
#include "ingot/export/dual_pool_onnx.h"
#include "ingot/infer/sentence_directory.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/weights/npz.h"
#include "ingot/weights/open.h"
#include "ingot/weights/raw.h"
#include "ingot/weights/torch_writer.h"

namespace ingot {
namespace {

/// What comes out; a name without an ending is a directory.
struct ConvertTarget {
  std::string format;
  bool directory = false;
};

ConvertTarget target_of(const ConvertOptions& o) {
  const std::string ending = std::filesystem::path(o.destination).extension().string();
  const std::string by_name = ending == ".gguf"   ? "gguf"
                              : ending == ".npz"  ? "npz"
                              : ending == ".pt"   ? "pt"
                              : ending == ".onnx" ? "onnx"
                                                  : "safetensors";
  const std::string format = o.to.empty() ? by_name : o.to;
  INGOT_CHECK(
      format == "gguf" || format == "npz" || format == "onnx" || format == "pt" || format == "safetensors",
      InvalidConfig("to", fmt::format("is '{}'; there are safetensors, gguf, npz, pt and onnx", format)));
  const bool directory = format == "safetensors" && ending != ".safetensors";
  INGOT_CHECK(o.to.empty() || directory || o.to == by_name,
              InvalidConfig("to", fmt::format("{} cannot be called {}", o.to, o.destination)));
  return {format, directory};
}

std::shared_ptr<const WeightSource> open_tensors(const ConvertOptions& o) {
  return o.raw.empty() ? open_weights(o.source) : open_raw(map_blob(o.source), parse_raw_tensors(o.raw));
}

SafetensorsOptions safetensors_options(const ConvertOptions& o) {
  SafetensorsOptions options;
  if (o.max_shard_bytes > 0) options.max_shard_bytes = o.max_shard_bytes;
  return options;
}

WrittenModel write_model_directory(const ConvertOptions& o, const WeightEncoding& encoding,
                                   const WriteProgress& progress) {
  const ModelCheckpoint checkpoint = open_checkpoint(o.source);
  const auto weights = encode_weights(checkpoint.weights, encoding, false);
  const bool gguf = o.source.ends_with(".gguf");
  const std::uint64_t bytes = bytes_as_loaded(*weights),
                      all_bytes = bytes + (gguf ? sentence_module_bytes(o.source, encoding.dtype) : 0);
  require_disk_space(o.destination, all_bytes, "the converted model");
  AtomicDirectory out(o.destination);
  write_file_atomically(out.file("config.json"), config_with_dtype(checkpoint.config_json, encoding.dtype));
  copy_companions(o.source, out.path());
  if (gguf) write_sentence_modules(o.source, out.path(), encoding.dtype);
  write_safetensors_directory(out.path(), stored_tensors(*weights, count_written(progress, bytes)),
                              safetensors_options(o));
  out.commit();
  return {.path = o.destination, .bytes = all_bytes, .stand_ins = {}};
}

WrittenModel write_gguf_file(const ConvertOptions& o, const WeightEncoding& encoding,
                             const WriteProgress& progress) {
  const GgufPlan plan{.encoding = encoding,
                      .max_bytes = o.max_shard_bytes == 0 ? UINT64_MAX : o.max_shard_bytes};
  return is_model(o.source) ? write_gguf_model(o.source, o.destination, plan, progress)
                            : write_gguf_tensors(open_tensors(o), o.destination, plan, progress);
}

// What tied weights would take once more, which PyTorch's files hold once.
std::uint64_t bytes_of_ties(const WeightSource& source) {
  std::uint64_t bytes = 0;
  for (const TensorInfo& info : source.tensors())
    if (!info.same_as.empty() && info.dtype)
      bytes += static_cast<std::uint64_t>(info.numel()) * byte_size(*info.dtype);
  return bytes;
}

/// One file of tensors under the names that the source gives them (a GGUF model: its checkpoint's names).
WrittenModel write_tensors(const ConvertOptions& o, const ConvertTarget& target, WeightEncoding encoding,
                           const WriteProgress& progress) {
  std::shared_ptr<const WeightSource> source =
      is_model(o.source) ? open_checkpoint(o.source).weights : open_tensors(o);
  const auto lacks = [](const TensorInfo& info) {
    return info.dtype == DType::bf16 || info.dtype == DType::f8e4m3 || info.dtype == DType::f8e5m2;
  };
  if (target.format == "npz" && !encoding.dtype && std::ranges::any_of(source->tensors(), lacks)) {
    log(LogLevel::warn, "ingot::convert",
        "NumPy has no bf16 and no 8-bit floats: floating-point tensors become f32");
    encoding.dtype = DType::f32;
  }
  const auto weights = encode_weights(std::move(source), encoding, false);
  const std::uint64_t bytes =
      bytes_as_loaded(*weights) - (target.format == "pt" ? bytes_of_ties(*weights) : 0);
  require_disk_space(o.destination, bytes, "the converted tensors");
  const std::vector<StoredTensor> tensors = stored_tensors(*weights, count_written(progress, bytes));
  if (target.format == "npz") {
    write_npz(o.destination, tensors);
  } else if (target.format == "pt") {
    write_torch(o.destination, tensors);
  } else if (target.directory) {
    AtomicDirectory out(o.destination);
    write_safetensors_directory(out.path(), tensors, safetensors_options(o));
    out.commit();
  } else {
    write_safetensors(o.destination, tensors);
  }
  return {.path = o.destination, .bytes = bytes, .stand_ins = {}};
}

// Graphs are written of one kind of network; a language model's would have to hold a KV cache.
ConvertedModel write_onnx(const ConvertOptions& o) {
  INGOT_CHECK(o.dtype.empty() || o.dtype == "f32",
              InvalidConfig("dtype", fmt::format("is {}; ONNX graphs are written in f32", o.dtype)));
  const auto refused = [&o](const Error& error) {
    return InvalidConfig("destination",
                         fmt::format("is '{}', but ONNX graphs are written of mahjong's networks alone ({}); "
                                     "name a .gguf, .npz, .pt or .safetensors file, or a directory",
                                     o.destination, error.what()));
  };
  std::unique_ptr<DualPoolNet> net;
  try {
    net = open_dual_pool_net(o.source, {.dtype = DType::f32, .device = kCpu, .trainable = false});
  } catch (const FormatError& error) {
    if (error.field != "model_type") throw;  // a network that is damaged
    throw refused(error);
  } catch (const IoError& error) {
    if (!std::filesystem::exists(o.source) || std::filesystem::exists(o.source + "/config.json")) throw;
    throw refused(error);
  }
  return {.path = o.destination,
          .format = "onnx",
          .bytes = write_dual_pool_onnx(o.destination, *net),
          .stand_ins = {}};
}

}  // namespace

ConvertedModel convert_model(const ConvertOptions& o, const WriteProgress& progress) {
  check_destination(o.source, o.destination, {".gguf", ".npz", ".onnx", ".pt", ".safetensors"});
  if (o.raw.empty() && is_adapter(o.source)) return convert_adapter(o);
  INGOT_CHECK(o.base.empty(),
              InvalidConfig("base", fmt::format("is given, but {} is not an adapter", o.source)));
  const ConvertTarget target = target_of(o);
  if (target.format == "onnx") return write_onnx(o);
  const WeightEncoding encoding = o.dtype.empty() ? WeightEncoding{} : parse_weight_encoding(o.dtype);
  INGOT_CHECK(
      encoding.blocks == nullptr || target.format == "gguf",
      InvalidConfig("dtype", fmt::format("{} is a block format, which only GGUF files hold; convert to gguf",
                                         o.dtype)));
  const WrittenModel written = target.format == "gguf" ? write_gguf_file(o, encoding, progress)
                               : target.directory && is_model(o.source)
                                   ? write_model_directory(o, encoding, progress)
                                   : write_tensors(o, target, encoding, progress);
  return {written.path, target.format, written.bytes, written.stand_ins};
}

}  // namespace ingot
