#include "ingot/weights/quantized_source.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/json_number.h"
#include "ingot/base/suggest.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/quant/packed_checkpoints.h"
#include "ingot/weights/mxfp4_source.h"

namespace ingot {
namespace {

using quant::CheckpointMatrix;

/// The tensors of one layer.
class Layer {
 public:
  Layer(const WeightSource& source, std::string name) : source_(source), name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  const TensorInfo* find(const std::string& field) const { return source_.find(name_ + "." + field); }
  const TensorInfo& info(const std::string& field) const {
    const TensorInfo* info = find(field);
    INGOT_CHECK(
        info != nullptr,
        InvalidConfig(name_ + "." + field,
                      fmt::format("is missing from {}: its layer has other tensors of a quantized one",
                                  source_.location())));
    return *info;
  }
  Tensor get(const std::string& field) const { return source_.load_tensor(info(field).name); }
  Tensor get_if(const std::string& field) const { return find(field) != nullptr ? get(field) : Tensor(); }
  std::int64_t size(const std::string& field, std::size_t axis) const {
    const TensorInfo& t = info(field);
    INGOT_CHECK(axis < t.shape.size(),
                InvalidConfig(t.name, fmt::format("must be a matrix, has shape {}", to_string(t.shape))));
    return t.shape[axis];
  }

 private:
  const WeightSource& source_;
  std::string name_;
};

struct Size {
  std::int64_t out = 0, in = 0;
};

/// One way to keep a layer. A layer is one of these where it has the tensor `mark`.
struct LayerLayout {
  std::string_view method, mark;
  std::vector<std::string> fields;  ///< all that may belong to it, the mark too
  Size (*size)(const Layer& layer, const QuantizationConfig& config);
  CheckpointMatrix (*read)(const Layer& layer, const QuantizationConfig& config);
};

// bitsandbytes keeps what its tensors mean as JSON, in bytes.
nlohmann::json bnb_state(const Layer& layer) {
  const std::string field = layer.find("weight.quant_state.bitsandbytes__fp4") != nullptr
                                ? "weight.quant_state.bitsandbytes__fp4"
                                : "weight.quant_state.bitsandbytes__nf4";
  const Tensor bytes = layer.get(field);
  INGOT_CHECK(bytes.dtype() == DType::u8,
              InvalidConfig(layer.name() + "." + field, "must be bytes (u8) of JSON"));
  const auto* text = reinterpret_cast<const char*>(bytes.data<std::uint8_t>());
  auto json = parse_json_or_discard<nlohmann::json>({text, static_cast<std::size_t>(bytes.numel())});
  const bool whole = json.is_object() && json.contains("shape") && json["shape"].is_array() &&
                     json["shape"].size() == 2 && json["shape"][0].is_number_integer() &&
                     json["shape"][1].is_number_integer() && json.contains("blocksize") &&
                     json["blocksize"].is_number_integer();
  INGOT_CHECK(whole, InvalidConfig(layer.name() + "." + field, "must be JSON with a shape and a blocksize"));
  return json;
}

Size bnb4_size(const Layer& layer, const QuantizationConfig&) {
  const nlohmann::json state = bnb_state(layer);
  return {state["shape"][0].get<std::int64_t>(), state["shape"][1].get<std::int64_t>()};
}

CheckpointMatrix read_bnb4(const Layer& layer, const QuantizationConfig& config) {
  const nlohmann::json state = bnb_state(layer);
  const Size size = bnb4_size(layer, config);
  const bool has_offset = state.contains("nested_offset") && state["nested_offset"].is_number();
  return quant::from_bnb4(
      {.weight = layer.get("weight"),
       .absmax = layer.get("weight.absmax"),
       .quant_map = layer.get("weight.quant_map"),
       .nested_absmax = layer.get_if("weight.nested_absmax"),
       .nested_quant_map = layer.get_if("weight.nested_quant_map"),
       .nested_offset = has_offset ? state["nested_offset"].get<float>() : 0.0F,
       .block = state["blocksize"].get<std::int64_t>(),
       .nested_block =
           state.contains("nested_blocksize") ? whole_number(state["nested_blocksize"]).value_or(256) : 256,
       .rows = size.out,
       .cols = size.in},
      layer.name());
}

Size dense_size(const Layer& layer, const QuantizationConfig&) {
  return {layer.size("weight", 0), layer.size("weight", 1)};
}

Size pack_quantized_size(const Layer& layer, const QuantizationConfig&) {
  const Tensor shape = layer.get("weight_shape");
  INGOT_CHECK(shape.numel() == 2 && (shape.dtype() == DType::i64 || shape.dtype() == DType::i32),
              InvalidConfig(layer.name() + ".weight_shape", "must be two integers"));
  const bool wide = shape.dtype() == DType::i64;
  const auto at = [&](int i) {
    return wide ? shape.data<std::int64_t>()[i] : std::int64_t{shape.data<std::int32_t>()[i]};
  };
  INGOT_CHECK(at(0) > 0 && at(1) > 0,
              InvalidConfig(layer.name() + ".weight_shape", fmt::format("is [{}, {}]", at(0), at(1))));
  return {at(0), at(1)};
}

// Layers of one file may have different bits; the words of a row tell.
int packed_bits(const Layer& layer, std::int64_t cols) {
  const std::int64_t words = layer.size("weight_packed", 1);
  for (const int bits : {4, 8, 2})
    if (words == (cols * bits + 31) / 32) return bits;
  throw InvalidConfig(layer.name() + ".weight_packed",
                      fmt::format("{} words for {} inputs; 4-bit codes would take {}, 8-bit codes {}", words,
                                  cols, (cols * 4 + 31) / 32, (cols * 8 + 31) / 32));
}

CheckpointMatrix read_pack_quantized(const Layer& layer, const QuantizationConfig& config) {
  const std::int64_t cols = pack_quantized_size(layer, config).in;
  return quant::from_pack_quantized({.packed = layer.get("weight_packed"),
                                     .scale = layer.get("weight_scale"),
                                     .zero_point = layer.get_if("weight_zero_point"),
                                     .g_idx = layer.get_if("weight_g_idx"),
                                     .cols = cols,
                                     .bits = packed_bits(layer, cols)},
                                    layer.name());
}

// Whether scales [.., ..] are those of blocks of a matrix.
bool has_blocks(const Layer& layer, const std::string& scale, std::int64_t rows, std::int64_t cols) {
  const TensorInfo& s = layer.info(scale);
  if (rows <= 0 || cols <= 0 || s.shape.size() != 2) return false;
  return s.shape[0] == (layer.size("weight", 0) + rows - 1) / rows &&
         s.shape[1] == (layer.size("weight", 1) + cols - 1) / cols;
}

// FP8 in blocks; where config.json gives none, in transformers' default ones if the scales fit them.
CheckpointMatrix read_fp8_blocks(const Layer& layer, const QuantizationConfig& config) {
  constexpr std::int64_t kDefault = 128;
  std::int64_t rows = config.block_rows, cols = config.block_cols;
  if (rows == 0 && has_blocks(layer, "weight_scale_inv", kDefault, kDefault)) rows = cols = kDefault;
  return quant::from_fp8({.weight = layer.get("weight"),
                          .scale = layer.get("weight_scale_inv"),
                          .block_rows = rows,
                          .block_cols = cols},
                         layer.name());
}

CheckpointMatrix read_scaled(const Layer& layer, const QuantizationConfig& config) {
  const TensorInfo& weight = layer.info("weight");
  if (weight.dtype == DType::i8)
    return quant::from_int8({.weight = layer.get("weight"),
                             .scale = layer.get("weight_scale"),
                             .zero_point = layer.get_if("weight_zero_point")},
                            layer.name());
  const bool blocks = has_blocks(layer, "weight_scale", config.block_rows, config.block_cols);
  return quant::from_fp8({.weight = layer.get("weight"),
                          .scale = layer.get("weight_scale"),
                          .block_rows = blocks ? config.block_rows : 0,
                          .block_cols = blocks ? config.block_cols : 0},
                         layer.name());
}

// Layers of one file may have different bits (GPTQModel's `dynamic`); their zero points tell.
int gptq_bits(const Layer& layer, const QuantizationConfig& config) {
  const std::int64_t outputs = layer.size("scales", 1), words = layer.size("qzeros", 1);
  for (const std::int64_t bits :
       {config.bits, std::int64_t{2}, std::int64_t{3}, std::int64_t{4}, std::int64_t{8}})
    if (bits > 0 && words == (outputs * bits + 31) / 32) return static_cast<int>(bits);
  throw InvalidConfig(layer.name() + ".qzeros",
                      fmt::format("{} words for {} outputs; {} bits would take {}", words, outputs,
                                  config.bits, (outputs * config.bits + 31) / 32));
}

const std::vector<LayerLayout>& layouts() {
  static const std::vector<LayerLayout> all{
      {"gptq",
       "qweight",
       {"qweight", "qzeros", "scales", "g_idx"},
       [](const Layer& l, const QuantizationConfig& c) {
         return Size{l.size("qweight", 1), l.size("qweight", 0) * 32 / gptq_bits(l, c)};
       },
       [](const Layer& l, const QuantizationConfig& c) -> CheckpointMatrix {
         return quant::from_gptq({.qweight = l.get("qweight"),
                                  .qzeros = l.get("qzeros"),
                                  .scales = l.get("scales"),
                                  .g_idx = l.get_if("g_idx"),
                                  .zeros_less_one = c.zeros_less_one,
                                  .bits = gptq_bits(l, c)},
                                 l.name());
       }},
      {"awq",
       "qweight",
       {"qweight", "qzeros", "scales"},
       [](const Layer& l, const QuantizationConfig&) {
         return Size{l.size("qweight", 1) * 8, l.size("qweight", 0)};
       },
       [](const Layer& l, const QuantizationConfig&) -> CheckpointMatrix {
         return quant::from_awq({l.get("qweight"), l.get("qzeros"), l.get("scales")}, l.name());
       }},
      {"compressed-tensors",
       "weight_global_scale",
       {"weight_packed", "weight_scale", "weight_global_scale", "input_global_scale"},
       [](const Layer& l, const QuantizationConfig&) {
         return Size{l.size("weight_packed", 0), 2 * l.size("weight_packed", 1)};
       },
       [](const Layer& l, const QuantizationConfig&) -> CheckpointMatrix {
         return quant::from_nvfp4({.packed = l.get("weight_packed"),
                                   .scale = l.get("weight_scale"),
                                   .global = l.get("weight_global_scale")},
                                  l.name());
       }},
      {"compressed-tensors",
       "weight_packed",
       {"weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx"},
       pack_quantized_size,
       read_pack_quantized},
      {"compressed-tensors",
       "weight_scale",
       {"weight", "weight_scale", "weight_zero_point", "input_scale", "input_zero_point"},
       dense_size,
       read_scaled},
      {"fp8",
       "weight_scale_inv",
       {"weight", "weight_scale_inv", "activation_scale", "input_scale"},
       dense_size,
       read_fp8_blocks},
      {"fp8",
       "weight_scale",
       {"weight", "weight_scale", "input_scale", "activation_scale"},
       dense_size,
       read_scaled},
      {"modelopt",
       "weight_scale_2",
       {"weight", "weight_scale", "weight_scale_2", "input_scale"},
       [](const Layer& l, const QuantizationConfig&) {
         return Size{l.size("weight", 0), 2 * l.size("weight", 1)};
       },
       [](const Layer& l, const QuantizationConfig&) -> CheckpointMatrix {
         return quant::from_nvfp4({.packed = l.get("weight"),
                                   .scale = l.get("weight_scale"),
                                   .global = l.get("weight_scale_2"),
                                   .multiplies = true},
                                  l.name());
       }},
      {"modelopt", "weight_scale", {"weight", "weight_scale", "input_scale"}, dense_size, read_scaled},
      {"bitsandbytes",
       "weight.absmax",
       {"weight", "weight.absmax", "weight.quant_map", "weight.nested_absmax", "weight.nested_quant_map",
        "weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4"},
       bnb4_size,
       read_bnb4},
      {"bitsandbytes",
       "SCB",
       {"weight", "SCB", "weight_format"},
       dense_size,
       [](const Layer& l, const QuantizationConfig&) -> CheckpointMatrix {
         return quant::from_int8(
             {.weight = l.get("weight"), .scale = l.get("SCB"), .zero_point = {}, .divisor = 127}, l.name());
       }}};
  return all;
}

std::vector<const LayerLayout*> layouts_of(const QuantizationConfig& config) {
  std::vector<const LayerLayout*> found;
  std::vector<std::string> known;
  for (const LayerLayout& layout : layouts()) {
    if (known.empty() || known.back() != layout.method) known.emplace_back(layout.method);
    if (layout.method == config.method) found.push_back(&layout);
  }
  known.emplace_back("mxfp4");  // open_mxfp4()
  INGOT_CHECK(!found.empty(), NotImplemented(fmt::format(
                                  "quantization_config: quant_method '{}'{}; Ingot reads {}", config.method,
                                  did_you_mean(config.method, known), fmt::join(known, ", "))));
  return found;
}

// ModelOpt's other methods also change what goes into a layer.
void check_modelopt(const WeightSource& source, const QuantizationConfig& config) {
  const std::string& algorithm = config.algorithm;
  INGOT_CHECK(algorithm.empty() || algorithm == "NVFP4" || algorithm == "FP8",
              NotImplemented(fmt::format("{}: quantization_config.quant_algo '{}' of ModelOpt; NVFP4 and FP8 "
                                         "are read",
                                         source.location(), algorithm)));
  for (const TensorInfo& info : source.tensors())
    INGOT_CHECK(!info.name.ends_with(".pre_quant_scale"),
                NotImplemented(fmt::format("{}: {}: inputs that are scaled before their layer (ModelOpt's "
                                           "AWQ); NVFP4 and FP8 without it are read",
                                           source.location(), info.name)));
}

class QuantizedSource final : public WeightSource {
 public:
  QuantizedSource(std::shared_ptr<const WeightSource> base, const QuantizationConfig& config)
      : WeightSource(base->location()), base_(std::move(base)), config_(config) {
    std::set<std::string> consumed;
    std::vector<TensorInfo> tensors;
    for (const LayerLayout* layout : layouts_of(config)) {
      const std::string mark = "." + std::string(layout->mark);
      for (const TensorInfo& info : base_->tensors()) {
        if (!info.name.ends_with(mark) || consumed.contains(info.name)) continue;
        const Layer layer(*base_, info.name.substr(0, info.name.size() - mark.size()));
        tensors.push_back(describe(layer, *layout, consumed));
        layers_.emplace(tensors.back().name, layout);
      }
    }
    for (const TensorInfo& info : base_->tensors())
      if (!consumed.contains(info.name)) tensors.push_back(info);
    set_contents(std::move(tensors), base_->metadata());
  }

  std::string_view format() const override { return base_->format(); }
  WeightCapabilities capabilities() const override {
    return {.concurrent = base_->capabilities().concurrent};
  }

 protected:
  Tensor load(const TensorInfo& info) const override {
    const LayerLayout* layout = layout_of(info);
    if (layout == nullptr) return base_->load_tensor(info.name);
    const NoGrad no_grad;
    const Tensor values = quant::values_of(read(info, *layout));
    return config_.inputs_first ? contiguous(transpose(values, 0, 1)) : values;
  }
  Blob stored(const TensorInfo& info) const override {
    INGOT_CHECK(layout_of(info) == nullptr,
                NotImplemented(fmt::format("{}: the stored bytes of '{}', which stands in several tensors",
                                           location(), info.name)));
    return base_->stored_bytes(info.name);
  }
  quant::PackedPtr packed(const TensorInfo& info, const PackedPart& part) const override {
    const LayerLayout* layout = layout_of(info);
    if (layout == nullptr) return base_->load_packed(info.name, part);
    if (part.transposed != config_.inputs_first || part.columns > 0) return nullptr;
    return quant::pack(quant::rows_of(read(info, *layout), part.first, part.rows), info.name);
  }

 private:
  const LayerLayout* layout_of(const TensorInfo& info) const {
    const auto found = layers_.find(info.name);
    return found == layers_.end() ? nullptr : found->second;
  }
  CheckpointMatrix read(const TensorInfo& info, const LayerLayout& layout) const {
    const std::string name = info.name.substr(0, info.name.size() - std::string_view(".weight").size());
    return layout.read(Layer(*base_, name), config_);
  }
  TensorInfo describe(const Layer& layer, const LayerLayout& layout, std::set<std::string>& consumed) const {
    TensorInfo weight;
    weight.name = layer.name() + ".weight";
    weight.dtype = DType::f32;
    weight.stored_as = layout.method;
    for (const std::string& field : layout.fields) {
      const TensorInfo* info = layer.find(field);
      if (info == nullptr) continue;
      consumed.insert(info->name);
      weight.bytes += info->bytes;
      weight.file = info->file;
    }
    const Size size = layout.size(layer, config_);
    weight.shape = config_.inputs_first ? std::vector{size.in, size.out} : std::vector{size.out, size.in};
    return weight;
  }

  std::shared_ptr<const WeightSource> base_;
  QuantizationConfig config_;
  std::map<std::string, const LayerLayout*> layers_;  // by the dense name
};

}  // namespace

std::shared_ptr<const WeightSource> open_quantized(std::shared_ptr<const WeightSource> base,
                                                   const QuantizationConfig& config) {
  if (config.method == "mxfp4") return open_mxfp4(std::move(base));
  if (config.method == "modelopt") check_modelopt(*base, config);
  return std::make_shared<QuantizedSource>(std::move(base), config);
}

}  // namespace ingot
