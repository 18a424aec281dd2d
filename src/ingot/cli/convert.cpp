#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/units.h"
#include "ingot/cli/verbs.h"
#include "ingot/cli/write_model.h"
#include "ingot/hub/resolve.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/weights/encode.h"
#include "ingot/weights/npz.h"
#include "ingot/weights/open.h"
#include "ingot/weights/raw.h"

namespace ingot::cli {
namespace {

namespace fs = std::filesystem;

struct ConvertOptions {
  std::string source, destination, to, dtype, shard_size;
  std::vector<std::string> raw;
  bool json = false;
};

/// What comes out, told by --to or by the destination's name; a name without an ending is a directory.
struct Target {
  std::string format;
  bool directory = false;
};

Target target_of(const ConvertOptions& o) {
  const std::string ending = fs::path(o.destination).extension().string();
  std::string by_name = ending == ".gguf" ? "gguf" : ending == ".npz" ? "npz" : "safetensors";
  const std::string format = o.to.empty() ? by_name : o.to;
  const bool directory = format == "safetensors" && ending != ".safetensors";
  INGOT_CHECK(o.to.empty() || directory || o.to == by_name,
              InvalidConfig("--to", fmt::format("{} cannot be called {}", o.to, o.destination)));
  return {format, directory};
}

std::shared_ptr<const WeightSource> open_tensors(const ConvertOptions& o) {
  return o.raw.empty() ? open_weights(o.source) : open_raw(map_blob(o.source), parse_raw_tensors(o.raw));
}

SafetensorsOptions safetensors_options(const ConvertOptions& o) {
  SafetensorsOptions options;
  if (!o.shard_size.empty()) options.max_shard_bytes = parse_bytes(o.shard_size, "--shard-size");
  return options;
}

/// config.json with the dtype that is stored now.
std::string config_with_dtype(const std::string& config, const WeightEncoding& encoding) {
  if (!encoding.dtype) return config;
  nlohmann::ordered_json json = parse_json<nlohmann::ordered_json>(config, "config.json");
  const char* name = *encoding.dtype == DType::f16    ? "float16"
                     : *encoding.dtype == DType::bf16 ? "bfloat16"
                     : *encoding.dtype == DType::f64  ? "float64"
                                                      : "float32";
  json["torch_dtype"] = name;
  if (json.contains("dtype")) json["dtype"] = name;
  return dump_json(json, 2) + "\n";
}

std::uint64_t write_model_directory(const ConvertOptions& o, const WeightEncoding& encoding) {
  const ModelCheckpoint checkpoint = open_checkpoint(o.source);
  const auto weights = encode_weights(checkpoint.weights, encoding, false);
  require_disk_space(o.destination, weights->total_bytes(), "the converted model");
  AtomicDirectory out(o.destination);
  write_file_atomically(out.file("config.json"), config_with_dtype(checkpoint.config_json, encoding));
  copy_companions(o.source, out.path());
  WriteMeter meter("converting", weights->total_bytes());
  write_safetensors_directory(out.path(), stored_tensors(*weights, meter.callback()), safetensors_options(o));
  out.commit();
  return meter.done();
}

/// Puts the first of several files in the place of the destination.
std::uint64_t write_gguf_file(ConvertOptions& o, const WeightEncoding& encoding) {
  const GgufPlan plan{
      .encoding = encoding,
      .max_bytes = o.shard_size.empty() ? UINT64_MAX : parse_bytes(o.shard_size, "--shard-size"),
      .label = "converting"};
  const WrittenGguf written = is_model(o.source) ? write_gguf_model(o.source, o.destination, plan)
                                                 : write_gguf_tensors(open_tensors(o), o.destination, plan);
  o.destination = written.path;
  return written.bytes;
}

/// One file of tensors under the names that the source gives them (a GGUF model: its checkpoint's names).
std::uint64_t write_tensors(const ConvertOptions& o, const Target& target, WeightEncoding encoding) {
  std::shared_ptr<const WeightSource> source =
      is_model(o.source) ? open_checkpoint(o.source).weights : open_tensors(o);
  const auto lacks = [](const TensorInfo& info) {
    return info.dtype == DType::bf16 || info.dtype == DType::f8e4m3 || info.dtype == DType::f8e5m2;
  };
  if (target.format == "npz" && !encoding.dtype && std::ranges::any_of(source->tensors(), lacks)) {
    fmt::print(stderr, "NumPy has no bf16 and no 8-bit floats: floating-point tensors become f32\n");
    encoding.dtype = DType::f32;
  }
  const auto weights = encode_weights(std::move(source), encoding, false);
  require_disk_space(o.destination, weights->total_bytes(), "the converted tensors");
  WriteMeter meter("converting", weights->total_bytes());
  const std::vector<StoredTensor> tensors = stored_tensors(*weights, meter.callback());
  if (target.format == "npz") {
    write_npz(o.destination, tensors);
  } else if (target.directory) {
    AtomicDirectory out(o.destination);
    write_safetensors_directory(out.path(), tensors, safetensors_options(o));
    out.commit();
  } else {
    write_safetensors(o.destination, tensors);
  }
  return meter.done();
}

int run(ConvertOptions o) {
  o.source = hub::resolve_model(o.source);
  const Target target = target_of(o);
  const WeightEncoding encoding = o.dtype.empty() ? WeightEncoding{} : parse_weight_encoding(o.dtype);
  INGOT_CHECK(
      encoding.blocks == nullptr || target.format == "gguf",
      InvalidConfig("--dtype",
                    fmt::format("{} is a block format, which only GGUF files hold; add --to gguf", o.dtype)));
  std::error_code ignored;
  INGOT_CHECK(!fs::equivalent(o.source, o.destination, ignored),
              InvalidConfig("destination", "is the source itself; give another name"));
  const std::uint64_t bytes = target.format == "gguf"                  ? write_gguf_file(o, encoding)
                              : target.directory && is_model(o.source) ? write_model_directory(o, encoding)
                                                                       : write_tensors(o, target, encoding);
  if (o.json) {
    fmt::print("{}\n", dump_json(nlohmann::ordered_json{
                           {"path", o.destination}, {"format", target.format}, {"bytes", bytes}}));
  } else {
    fmt::print("{}: {}, {} of tensors\n", o.destination, target.format, human_bytes(bytes));
  }
  return 0;
}

}  // namespace

void add_convert(Command& root) {
  auto o = std::make_shared<ConvertOptions>();
  Command verb = root.verb("convert", "Write weights, or a whole model, in another format or element type");
  verb.option("source", o->source,
              "A model directory, or a file: safetensors, GGUF, PyTorch, NumPy, Keras, TensorFlow")
      .required();
  verb.option("destination", o->destination,
              "What to write: NAME.gguf, NAME.npz, NAME.safetensors, or a directory")
      .required();
  verb.option("--to", o->to, "The format, where the name does not tell")
      .one_of({"safetensors", "gguf", "npz"});
  verb.option("--dtype", o->dtype,
              "Element type of the weights: f32, bf16, f16, or a block format (q8_0, q4_k, ...)");
  verb.option("--shard-size", o->shard_size,
              "Above this size several files are written (a directory: 5GB; GGUF: one file)");
  verb.option("--raw", o->raw,
              "What a file without a header holds, as NAME=f32[2,3]@OFFSET (may be repeated)");
  verb.flag("--json", o->json, "Print path, format and bytes as JSON");
  verb.example("ingot convert out/model model.gguf --dtype q8_0", "a file that llama.cpp opens");
  verb.example("ingot convert model.gguf model", "back to a Hugging Face directory, tokenizer included");
  verb.example("ingot convert out/model model.gguf --shard-size 2GB", "model-00001-of-00004.gguf and so on");
  verb.example("ingot convert values.bin values.npz --raw 'f32[-1,768]'", "rows of a file without a header");
  verb.example("ingot convert pytorch_model.bin model.safetensors --dtype bf16", "one file of tensors");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
