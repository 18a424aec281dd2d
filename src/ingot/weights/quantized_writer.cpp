#include "ingot/weights/quantized_writer.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/suggest.h"
#include "ingot/kernels/nvfp4.h"
#include "ingot/ops/cast.h"
#include "ingot/quant/codebook_matrix.h"
#include "ingot/quant/gptq.h"
#include "ingot/quant/group_matrix.h"

namespace ingot {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A layer's tensors are asked for one by one, in the order of their types. Each rounds the layer again, which
// costs less than keeping the codes of all layers in memory.

std::int32_t word_of(const std::uint8_t* codes, std::int64_t count, std::int64_t stride, int bits) {
  std::uint32_t word = 0;
  for (std::int64_t i = 0; i < count; ++i) word |= std::uint32_t{codes[i * stride]} << (bits * i);
  return static_cast<std::int32_t>(word);
}

// A field of codes [rows, cols] as words along its rows' axis 0 or along its columns.
Tensor packed_words(const Tensor& codes, int bits, bool along_rows) {
  const std::int64_t rows = codes.dim(0), cols = codes.dim(1), per_word = 32 / bits;
  const auto* from = codes.data<std::uint8_t>();
  if (along_rows) {
    Tensor words = Tensor::empty({(rows + per_word - 1) / per_word, cols}, DType::i32);
    for (std::int64_t w = 0; w < words.dim(0); ++w) {
      for (std::int64_t c = 0; c < cols; ++c)
        words.data<std::int32_t>()[w * cols + c] =
            word_of(from + w * per_word * cols + c, std::min(per_word, rows - w * per_word), cols, bits);
    }
    return words;
  }
  Tensor words = Tensor::empty({rows, (cols + per_word - 1) / per_word}, DType::i32);
  const std::int64_t width = words.dim(1);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t w = 0; w < width; ++w)
      words.data<std::int32_t>()[row * width + w] =
          word_of(from + row * cols + w * per_word, std::min(per_word, cols - w * per_word), 1, bits);
  }
  return words;
}

Tensor matrix(const WeightSource& source, const std::string& name) {
  const NoGrad no_grad;
  return to(source.load_tensor(name), DType::f32);
}

DType scale_dtype(const TensorInfo& info) { return info.dtype == DType::f32 ? DType::f32 : DType::f16; }

void add_groups(const WeightSource& source, const TensorInfo& info, const quant::GroupOptions& options,
                const InputProducts& products, std::vector<StoredTensor>& tensors) {
  const std::string layer = info.name.substr(0, info.name.rfind(".weight"));
  const std::int64_t rows = info.shape[0], cols = info.shape[1],
                     group = options.group == 0 ? cols : options.group;
  const std::int64_t per_word = 32 / options.bits, groups = cols / group;
  const auto rounded = [&source, name = info.name, options] {
    return quant::GroupMatrix::quantize(matrix(source, name), options, name);
  };
  tensors.push_back({layer + ".weight_packed", Shape({rows, (cols + per_word - 1) / per_word}), DType::i32,
                     [=, &source, name = info.name] {
                       const Tensor squares = products ? products(name) : Tensor();
                       if (!squares.defined()) return packed_words(rounded().codes, options.bits, false);
                       // Scales and zero points are those of plain rounding.
                       const auto m = quant::quantize_gptq(matrix(source, name), squares, options, name);
                       return packed_words(m.codes, options.bits, false);
                     }});
  const DType dtype = scale_dtype(info);
  tensors.push_back(
      {layer + ".weight_scale", Shape({rows, groups}), dtype, [=] { return to(rounded().scales, dtype); }});
  if (!options.symmetric)
    tensors.push_back({layer + ".weight_zero_point", Shape({(rows + per_word - 1) / per_word, groups}),
                       DType::i32, [=] { return packed_words(rounded().zeros, options.bits, true); }});
  tensors.push_back(
      StoredTensor::of(layer + ".weight_shape", Tensor::from(std::vector<std::int64_t>{rows, cols}, {2})));
}

Tensor as_e4m3(const Tensor& codes) {
  return {codes.storage(), contiguous_view(codes.view().data, codes.shape(), DType::f8e4m3, kCpu)};
}

// Scales [rows, groups] that are the same in all rows of a tile.
Tensor first_rows_of_tiles(const Tensor& scales) {
  const std::int64_t bands = (scales.dim(0) + quant::kFp8Tile - 1) / quant::kFp8Tile, groups = scales.dim(1);
  const Tensor first = Tensor::empty({bands, groups});
  for (std::int64_t band = 0; band < bands; ++band)
    std::copy_n(scales.data<float>() + band * quant::kFp8Tile * groups, groups,
                first.data<float>() + band * groups);
  return first;
}

void add_fp8(const WeightSource& source, const TensorInfo& info, std::vector<StoredTensor>& tensors) {
  const auto rounded = [&source, name = info.name] {
    return quant::CodebookMatrix::quantize_fp8(matrix(source, name), name);
  };
  tensors.push_back({info.name, Shape(std::span<const std::int64_t>(info.shape)), DType::f8e4m3,
                     [rounded] { return as_e4m3(rounded().codes); }});
  tensors.push_back(
      {info.name + "_scale", Shape({info.shape[0], 1}), DType::f32, [rounded] { return rounded().scales; }});
}

// DeepSeek's layout: a scale for each tile, which multiplies for all its name.
void add_fp8_tiles(const WeightSource& source, const TensorInfo& info, std::vector<StoredTensor>& tensors) {
  const auto rounded = [&source, name = info.name] {
    return quant::CodebookMatrix::quantize_fp8_tiles(matrix(source, name), name);
  };
  const auto tiles = [](std::int64_t n) { return (n + quant::kFp8Tile - 1) / quant::kFp8Tile; };
  tensors.push_back({info.name, Shape(std::span<const std::int64_t>(info.shape)), DType::f8e4m3,
                     [rounded] { return as_e4m3(rounded().codes); }});
  tensors.push_back({info.name + "_scale_inv", Shape({tiles(info.shape[0]), tiles(info.shape[1])}),
                     DType::f32, [rounded] { return first_rows_of_tiles(rounded().scales); }});
}

Tensor nf4_bytes(const Tensor& codes) {
  Tensor bytes = Tensor::empty({codes.numel() / 2, 1}, DType::u8);
  const auto* from = codes.data<std::uint8_t>();
  for (std::int64_t i = 0; i < bytes.numel(); ++i)
    bytes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(from[2 * i] << 4 | from[2 * i + 1]);
  return bytes;
}

void add_nf4(const WeightSource& source, const TensorInfo& info, std::vector<StoredTensor>& tensors) {
  constexpr std::int64_t kBlock = 64;
  const std::int64_t rows = info.shape[0], cols = info.shape[1];
  const auto rounded = [&source, name = info.name] {
    return quant::CodebookMatrix::quantize_nf4(matrix(source, name), name);
  };
  const std::string dtype = info.dtype == DType::f16    ? "float16"
                            : info.dtype == DType::bf16 ? "bfloat16"
                                                        : "float32";
  const std::string state = dump_json(
      OrderedJson{{"quant_type", "nf4"}, {"blocksize", kBlock}, {"dtype", dtype}, {"shape", {rows, cols}}});
  const std::span<const std::uint8_t> bytes(reinterpret_cast<const std::uint8_t*>(state.data()),
                                            state.size());
  tensors.push_back(
      {info.name, Shape({rows * cols / 2, 1}), DType::u8, [rounded] { return nf4_bytes(rounded().codes); }});
  tensors.push_back({info.name + ".absmax", Shape({rows * cols / kBlock}), DType::f32, [rounded] {
                       const Tensor scales = rounded().scales;
                       return Tensor(scales.storage(),
                                     contiguous_view(scales.view().data, {scales.numel()}, DType::f32, kCpu));
                     }});
  tensors.push_back(StoredTensor::of(info.name + ".quant_map",
                                     Tensor::from(std::span<const float>(kernels::kNf4Values), {16})));
  tensors.push_back(StoredTensor::of(info.name + ".quant_state.bitsandbytes__nf4",
                                     Tensor::from(bytes, {static_cast<std::int64_t>(state.size())})));
}

// compressed-tensors' layout: two codes a byte, the first in the low nibble, and what scales are divided by.
void add_nvfp4(const WeightSource& source, const TensorInfo& info, std::vector<StoredTensor>& tensors) {
  const std::string layer = info.name.substr(0, info.name.rfind(".weight"));
  const std::int64_t rows = info.shape[0], cols = info.shape[1];
  const auto rounded = [&source, name = info.name] {
    return quant::CodebookMatrix::quantize_nvfp4(matrix(source, name), name);
  };
  tensors.push_back(
      {layer + ".weight_packed", Shape({rows, cols / 2}), DType::u8, [=] {
         const Tensor codes = rounded().codes, bytes = Tensor::empty({rows, cols / 2}, DType::u8);
         const auto* from = codes.data<std::uint8_t>();
         for (std::int64_t i = 0; i < bytes.numel(); ++i)
           bytes.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(from[2 * i] | from[2 * i + 1] << 4);
         return bytes;
       }});
  tensors.push_back({layer + ".weight_scale", Shape({rows, cols / kernels::kNvfp4Block}), DType::f8e4m3,
                     [rounded] { return to(rounded().scales, DType::f8e4m3); }});
  tensors.push_back({layer + ".weight_global_scale", Shape({1}), DType::f32, [rounded] {
                       return Tensor::from(std::vector<float>{1 / rounded().row_scales.data<float>()[0]},
                                           {1});
                     }});
}

// The modules that a configuration leaves out: the head, and what stays as it is.
OrderedJson left_out(const std::vector<std::string>& dense) {
  OrderedJson modules = {"lm_head"};
  for (const std::string& name : dense) modules.push_back(name.substr(0, name.rfind(".weight")));
  return modules;
}

OrderedJson compressed_tensors_config(const char* format, const OrderedJson& weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"quantization_status", "compressed"},
          {"global_compression_ratio", nullptr},
          {"kv_cache_scheme", nullptr},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"input_activations", nullptr},
              {"output_activations", nullptr},
              {"weights", weights}}}}}};
}

OrderedJson groups_config(const quant::GroupOptions& options) {
  return compressed_tensors_config(
      "pack-quantized",
      {{"num_bits", options.bits},
       {"type", "int"},
       {"symmetric", options.symmetric},
       {"strategy", options.group == 0 ? "channel" : "group"},
       {"group_size", options.group == 0 ? OrderedJson(nullptr) : OrderedJson(options.group)},
       {"dynamic", false},
       {"actorder", nullptr},
       {"block_structure", nullptr},
       {"observer", "minmax"},
       {"observer_kwargs", OrderedJson::object()}});
}

OrderedJson fp8_config() {
  return compressed_tensors_config("float-quantized", {{"num_bits", 8},
                                                       {"type", "float"},
                                                       {"symmetric", true},
                                                       {"strategy", "channel"},
                                                       {"group_size", nullptr},
                                                       {"dynamic", false},
                                                       {"actorder", nullptr},
                                                       {"block_structure", nullptr},
                                                       {"observer", "minmax"},
                                                       {"observer_kwargs", OrderedJson::object()}});
}

OrderedJson nvfp4_config() {
  return compressed_tensors_config("nvfp4-pack-quantized", {{"num_bits", 4},
                                                            {"type", "float"},
                                                            {"symmetric", true},
                                                            {"strategy", "tensor_group"},
                                                            {"group_size", kernels::kNvfp4Block},
                                                            {"dynamic", false},
                                                            {"actorder", nullptr},
                                                            {"block_structure", nullptr},
                                                            {"observer", "minmax"},
                                                            {"observer_kwargs", OrderedJson::object()}});
}

OrderedJson fp8_tiles_config() {
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"activation_scheme", "dynamic"},
          {"weight_block_size", {quant::kFp8Tile, quant::kFp8Tile}}};
}

OrderedJson nf4_config() {
  return {{"quant_method", "bitsandbytes"},
          {"load_in_4bit", true},
          {"load_in_8bit", false},
          {"bnb_4bit_quant_type", "nf4"},
          {"bnb_4bit_use_double_quant", false},
          {"bnb_4bit_compute_dtype", "float32"},
          {"bnb_4bit_quant_storage", "uint8"}};
}

std::string config_of(std::string_view format, const std::optional<quant::GroupOptions>& groups,
                      const std::vector<std::string>& dense) {
  OrderedJson config = groups                    ? groups_config(*groups)
                       : format == "fp8"         ? fp8_config()
                       : format == "nvfp4"       ? nvfp4_config()
                       : format == "fp8-128x128" ? fp8_tiles_config()
                                                 : nf4_config();
  const std::string method = config["quant_method"];
  config[method == "bitsandbytes" ? "llm_int8_skip_modules"
         : method == "fp8"        ? "modules_to_not_convert"
                                  : "ignore"] = left_out(dense);
  return dump_json(config);
}

}  // namespace

std::vector<std::string> quantized_checkpoint_formats() {
  std::vector<std::string> names;
  for (const std::string& name : quant::quantized_formats())
    if (quant::find_group_options(name) || name == "nf4" || name == "nvfp4" || name.starts_with("fp8"))
      names.push_back(name);
  return names;
}

QuantizedCheckpoint quantize_checkpoint(const WeightSource& source, std::string_view format,
                                        const std::function<bool(const TensorInfo&)>& is_linear,
                                        const WrittenCallback& written, const InputProducts& products) {
  const auto groups = quant::find_group_options(format);
  const std::vector<std::string> known = quantized_checkpoint_formats();
  INGOT_CHECK(
      groups || std::ranges::find(known, format) != known.end(),
      InvalidConfig("--format", fmt::format("'{}' has no layout in safetensors files{}; {} have. GGUF files "
                                            "(NAME.gguf) hold q8_0, q4_k and their kin",
                                            format, did_you_mean(format, known), fmt::join(known, ", "))));
  QuantizedCheckpoint result;
  std::vector<std::string> dense;
  for (const TensorInfo& info : source.tensors()) {
    bool rounds = is_linear(info);
    if (rounds) {
      const quant::MatrixFormat rule = quant::matrix_format(format, info.shape[1]);
      result.stand_ins.add(info.name, info.shape[1], rule);
      rounds = !rule.is_dense();
      if (!rounds) dense.push_back(info.name);
    }
    if (!rounds) {
      INGOT_CHECK(info.dtype.has_value(),
                  NotImplemented(fmt::format("{}: '{}' of element type {}", source.location(), info.name,
                                             info.stored_as)));
      result.tensors.push_back({info.name, Shape(std::span<const std::int64_t>(info.shape)), *info.dtype,
                                [&source, name = info.name] { return source.load_tensor(name); }});
    } else if (groups) {
      add_groups(source, info, *groups, products, result.tensors);
    } else if (format == "fp8") {
      add_fp8(source, info, result.tensors);
    } else if (format == "fp8-128x128") {
      add_fp8_tiles(source, info, result.tensors);
    } else if (format == "nvfp4") {
      add_nvfp4(source, info, result.tensors);
    } else {
      add_nf4(source, info, result.tensors);
    }
  }
  result.config = config_of(format, groups, dense);
  for (StoredTensor& tensor : result.tensors) {
    tensor.values = [values = std::move(tensor.values), written] {
      Tensor made = values();
      if (written) written(made.nbytes());
      return made;
    };
  }
  return result;
}

}  // namespace ingot
