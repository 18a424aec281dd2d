#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/progress.h"
#include "ingot/base/units.h"
#include "ingot/cli/verbs.h"
#include "ingot/cli/write_model.h"
#include "ingot/data/text_file.h"
#include "ingot/hub/resolve.h"
#include "ingot/infer/quality.h"
#include "ingot/models/language/checkpoint.h"
#include "ingot/models/language/config.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/quant/block_format.h"
#include "ingot/quant/packed_matrix.h"
#include "ingot/weights/quantized_writer.h"

namespace ingot::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct QuantizeOptions {
  std::string source, destination, report;
  std::vector<std::string> formats;
  infer::PerplexityOptions window{.window = 256, .stride = 128};
  std::int64_t limit = 8192;
  std::string shard_size = "5GB";
  bool json = false;
};

// The matrices of a transformer's layers: what other programs call its Linear modules, the router and the
// head not counted.
bool is_linear(const TensorInfo& info) {
  return info.shape.size() == 2 && info.name.ends_with(".weight") &&
         info.name.find(".layers.") != std::string::npos && !info.name.ends_with(".gate.weight");
}

std::uint64_t write_directory(const QuantizeOptions& o, const std::string& format) {
  const ModelCheckpoint checkpoint = open_checkpoint(o.source);
  const LanguageConfig config = LanguageConfig::from_json(checkpoint.config_json, checkpoint.config_path);
  INGOT_CHECK(
      config.model_type != "gpt2",
      NotImplemented("a quantised safetensors directory of a GPT-2: its layers are no Linear modules, and "
                     "other programs do not read them so; write a .gguf file instead"));
  const QuantizedCheckpoint quantized = quantize_checkpoint(*checkpoint.weights, format, is_linear);
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : quantized.tensors)
    bytes += estimate_tensor_bytes(tensor.shape, tensor.dtype);
  require_disk_space(o.destination, bytes, "the quantised model");
  WriteMeter meter("quantising", bytes);
  QuantizedCheckpoint metered = quantize_checkpoint(*checkpoint.weights, format, is_linear, meter.callback());
  Json json = parse_json<Json>(checkpoint.config_json, checkpoint.weights->location() + ": config.json");
  json["quantization_config"] = parse_json<Json>(quantized.config, "quantization_config");
  AtomicDirectory out(o.destination);
  write_file_atomically(out.file("config.json"), dump_json(json, 2) + "\n");
  copy_companions(o.source, out.path());
  SafetensorsOptions options;
  options.max_shard_bytes = parse_bytes(o.shard_size, "--shard-size");
  write_safetensors_directory(out.path(), metered.tensors, options);
  out.commit();
  return bytes;
}

std::uint64_t write(const QuantizeOptions& o, const std::string& format) {
  if (!o.destination.ends_with(".gguf")) return write_directory(o, format);
  const quant::BlockFormat* blocks = quant::find_block_format(format);
  std::vector<std::string> known;
  for (const quant::BlockFormat& block : quant::block_formats()) known.emplace_back(block.name);
  INGOT_CHECK(
      blocks != nullptr,
      InvalidConfig("--format",
                    fmt::format("'{}' is none that GGUF files hold: {}. A directory holds {}", format,
                                fmt::join(known, ", "), fmt::join(quantized_checkpoint_formats(), ", "))));
  return write_gguf_model(o.source, o.destination,
                          {.encoding = {.dtype = std::nullopt, .blocks = blocks}, .label = "quantising"})
      .bytes;
}

Json as_json(const infer::Divergence& d) {
  return {{"perplexity", d.text.perplexity()}, {"kl", d.kl}, {"same_top", d.same_top}};
}

Json as_json(const infer::FormatQuality& q) {
  if (!q.refusal.empty()) return {{"format", q.format}, {"refusal", q.refusal}};
  return {{"format", q.format},
          {"bits_per_weight", q.bits_per_weight},
          {"weight_error", q.weight_error},
          {"weights_only", as_json(q.weights)},
          {"as_run", as_json(q.as_run)}};
}

void print_row(const infer::FormatQuality& q, double reference) {
  if (!q.refusal.empty()) {
    fmt::print("{:<15} {}\n", q.format, q.refusal);
    return;
  }
  const auto change = [reference](const infer::Divergence& d) {
    return 100 * (d.text.perplexity() / reference - 1);
  };
  fmt::print(
      "{:<15} {:>5.2f} {:>7.3f} % | {:>9.4f} {:>+8.3f} % {:>9.6f} | {:>9.4f} {:>+8.3f} % {:>9.6f} {:>6.2f} "
      "%\n",
      q.format, q.bits_per_weight, 100 * q.weight_error, q.weights.text.perplexity(), change(q.weights),
      q.weights.kl, q.as_run.text.perplexity(), change(q.as_run), q.as_run.kl, 100 * q.as_run.same_top);
}

Json report(const QuantizeOptions& o, const std::vector<std::string>& formats) {
  std::vector<std::int32_t> ids = open_tokenizer(o.source).encode(data::read_text_file(o.report));
  if (o.limit > 0 && o.limit < static_cast<std::int64_t>(ids.size()))
    ids.resize(static_cast<std::size_t>(o.limit));
  ProgressBar bar({.label = "measuring", .total = static_cast<std::int64_t>(formats.size()) + 1});
  const infer::QualityReport quality(o.source, ids, o.window);
  bar.update(1, "as stored");
  const double reference = quality.reference().perplexity();
  if (!o.json) {
    const ProgressPause pause;
    fmt::print("{} tokens of {}; perplexity {:.4f} with the weights as stored\n\n", ids.size(), o.report,
               reference);
    fmt::print("{:<15} {:>5} {:>9} | {:^31} | {:^39}\n", "", "", "weight", "rounded weights", "as it runs");
    fmt::print("{:<15} {:>5} {:>9} | {:>9} {:>10} {:>10} | {:>9} {:>10} {:>9} {:>8}\n", "format", "bits",
               "error", "perplex.", "", "KL", "perplex.", "", "KL", "same top");
  }
  Json rows = Json::array();
  for (std::size_t i = 0; i < formats.size(); ++i) {
    const infer::FormatQuality row = quality.measure(formats[i]);
    if (!o.json) {
      const ProgressPause pause;
      print_row(row, reference);
    }
    rows.push_back(as_json(row));
    bar.update(static_cast<std::int64_t>(i) + 2, formats[i]);
  }
  return {{"tokens", ids.size()}, {"perplexity", reference}, {"formats", rows}};
}

void check(const QuantizeOptions& o) {
  INGOT_CHECK(!o.destination.empty() || !o.report.empty(),
              InvalidConfig("destination", "give a file or directory to write, --report TEXT, or both"));
  INGOT_CHECK(
      o.destination.empty() || o.formats.size() == 1,
      InvalidConfig("--format", fmt::format("one format goes into a file; {} are named", o.formats.size())));
  const std::vector<std::string> known = quant::quantized_formats();
  for (const std::string& format : o.formats) {
    INGOT_CHECK(std::ranges::find(known, format) != known.end(),
                InvalidConfig("--format", fmt::format("'{}' is no format; there are: {}", format,
                                                      fmt::join(known, ", "))));
  }
  std::error_code ignored;
  INGOT_CHECK(o.destination.empty() || !fs::equivalent(o.source, o.destination, ignored),
              InvalidConfig("destination", "is the source itself; give another name"));
}

int run(QuantizeOptions o) {
  o.source = hub::resolve_model(o.source);
  check(o);
  Json result;
  if (!o.destination.empty()) {
    const std::uint64_t bytes = write(o, o.formats.front());
    result = {{"path", o.destination}, {"format", o.formats.front()}, {"bytes", bytes}};
    if (!o.json) fmt::print("{}: {}, {} of tensors\n", o.destination, o.formats.front(), human_bytes(bytes));
  }
  if (!o.report.empty()) {
    if (!o.destination.empty() && !o.json) fmt::print("\n");
    result["report"] = report(o, o.formats.empty() ? quant::quantized_formats() : o.formats);
  }
  if (o.json) fmt::print("{}\n", dump_json(result, 2));
  return 0;
}

}  // namespace

void add_quantize(Command& root) {
  auto o = std::make_shared<QuantizeOptions>();
  Command verb = root.verb("quantize", "Round a model's weights to fewer bits, and measure what that costs");
  verb.option("source", o->source, "A model directory, or a .gguf file").required();
  verb.option(
      "destination", o->destination,
      "NAME.gguf for llama.cpp's formats; a directory for int4, int8, fp8 (compressed-tensors) and nf4 "
      "(bitsandbytes)");
  verb.option("--format", o->formats,
              "q4_k, q8_0, int4-g128, nf4, fp8, ...; several, or none for all, to report");
  verb.option("--report", o->report, "Compare predictions of this UTF-8 text before and after");
  verb.option("--window", o->window.window, "Tokens that the model sees at once");
  verb.option("--stride", o->window.stride, "Tokens by which the window moves on");
  verb.option("--limit", o->limit, "Tokens of the text to use; 0: all");
  verb.option("--shard-size", o->shard_size, "A directory gets several files above this size");
  verb.flag("--json", o->json, "Print JSON");
  verb.example("ingot quantize out/model model-q4_k.gguf --format q4_k --report book.txt",
               "a file that llama.cpp opens, and what it costs on a text");
  verb.example("ingot quantize out/model model-fp8 --format fp8",
               "a directory that transformers opens, with compressed-tensors");
  verb.example("ingot quantize out/model --report book.txt", "every format, nothing written");
  verb.run([o] { return run(*o); });
}

}  // namespace ingot::cli
