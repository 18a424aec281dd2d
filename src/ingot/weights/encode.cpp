#include "ingot/weights/encode.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/base/suggest.h"
#include "ingot/quant/block_format.h"
#include "ingot/quant/matrix_format.h"
#include "ingot/weights/importance_matrix.h"
#include "ingot/weights/transform.h"

namespace ingot {
namespace {

std::shared_ptr<const std::vector<float>> importance_of(const WeightEncoding& encoding,
                                                        const std::string& name) {
  const auto* entry = encoding.importance == nullptr ? nullptr : encoding.importance->find(name);
  return entry == nullptr ? nullptr : std::make_shared<const std::vector<float>>(entry->means());
}

void add_blocks(const TensorInfo& info, const quant::MatrixFormat& format, const WeightEncoding& encoding,
                std::vector<Transform>& steps) {
  if (format.is_dense()) {  // f32 for what no format rounds, as llama.cpp's converter has it
    steps.push_back(Transform::cast(format.used == "f16" ? DType::f16 : DType::f32));
  } else if (const auto& blocks = *quant::find_block_format(format.used); info.stored_as != blocks.name) {
    steps.push_back(Transform::quantize(blocks, importance_of(encoding, info.name)));
  }
}

bool knows_any(const ImportanceMatrix& importance, const std::vector<TensorRecipe>& recipes) {
  return std::ranges::any_of(
      recipes, [&](const TensorRecipe& recipe) { return importance.find(recipe.name) != nullptr; });
}

std::string names_of(const ImportanceMatrix& importance) {
  return importance.entries.empty() ? "nothing"
                                    : fmt::format("'{}' and so on", importance.entries.begin()->first);
}

// Vectors, biases, and the table whose first row llama.cpp adds to every token: it adds in f32 alone.
bool is_added(const TensorInfo& info) {
  return info.shape.size() < 2 || info.name.ends_with(".bias") || info.name == "token_types.weight";
}

void encode_as_blocks(const TensorInfo& info, const WeightEncoding& encoding, std::vector<Transform>& steps,
                      quant::StandIns* stand_ins) {
  const quant::BlockFormat& blocks = *encoding.blocks;
  if (info.stored_as == blocks.name) return;
  if (info.shape.size() < 2) {
    steps.push_back(Transform::cast(DType::f32));
    return;
  }
  const std::int64_t cols = info.shape.back();
  const quant::MatrixFormat format = quant::matrix_format(blocks.name, cols, quant::matrix_role(info.name));
  add_blocks(info, format, encoding, steps);
  if (stand_ins != nullptr) stand_ins->add(info.name, cols, format);
}

}  // namespace

WeightEncoding parse_weight_encoding(std::string_view text) {
  if (const auto* blocks = quant::find_block_format(text)) {
    quant::check_is_written(*blocks);
    return {.blocks = blocks};
  }
  std::vector<std::string> known{"f32", "f16", "bf16", "f64"};
  for (const quant::BlockFormat& format : quant::block_formats()) {
    if (!format.is_written()) continue;
    std::string lower(format.name);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    known.push_back(std::move(lower));
  }
  try {
    const DType dtype = parse_dtype(text);
    if (is_floating_point(dtype)) return {.dtype = dtype};
  } catch (const InvalidConfig&) {  // said below, with the block formats
  }
  throw InvalidConfig("--dtype", fmt::format("'{}' is nothing to store weights in{}; there are {}", text,
                                             did_you_mean(text, known), fmt::join(known, ", ")));
}

std::shared_ptr<const WeightSource> encode_weights(std::shared_ptr<const WeightSource> source,
                                                   const WeightEncoding& encoding, bool vectors_as_f32,
                                                   quant::StandIns* stand_ins) {
  std::vector<TensorRecipe> recipes = identity_recipes(*source);
  for (TensorRecipe& recipe : recipes) {
    const TensorInfo& info = source->get_metadata(recipe.name);
    if (!info.dtype || !is_floating_point(*info.dtype)) continue;
    const bool blocks = quant::find_block_format(info.stored_as) != nullptr;
    if (encoding.blocks != nullptr) {
      encode_as_blocks(info, encoding, recipe.steps, stand_ins);
      continue;
    }
    const bool vector = vectors_as_f32 && is_added(info);
    if (!vector && !encoding.dtype) continue;
    const DType wanted = vector ? DType::f32 : *encoding.dtype;
    if (*info.dtype != wanted || blocks) recipe.steps.push_back(Transform::cast(wanted));
  }
  INGOT_CHECK(
      encoding.importance == nullptr || knows_any(*encoding.importance, recipes),
      InvalidConfig("importance matrix", fmt::format("has no matrix of {}, but {}: it was made for another "
                                                     "model, or under other names",
                                                     source->location(), names_of(*encoding.importance))));
  return std::make_shared<TransformedSource>(std::move(source), std::move(recipes));
}

std::uint64_t bytes_as_loaded(const WeightSource& source) {
  std::uint64_t bytes = 0;
  for (const TensorInfo& info : source.tensors())
    bytes += info.dtype ? static_cast<std::uint64_t>(info.numel()) * byte_size(*info.dtype) : info.bytes;
  return bytes;
}

std::vector<StoredTensor> stored_tensors(const WeightSource& source, const WrittenCallback& written) {
  std::vector<StoredTensor> tensors;
  for (const TensorInfo& info : source.tensors()) {
    INGOT_CHECK(info.dtype.has_value(),
                NotImplemented(fmt::format("{}: converting '{}': element type {}", source.location(),
                                           info.name, info.stored_as)));
    const auto values = [&source, &info, written] {
      Tensor tensor = source.load_tensor(info.name);
      if (written) written(tensor.nbytes());
      return tensor;
    };
    tensors.push_back(
        {info.name, Shape(std::span<const std::int64_t>(info.shape)), *info.dtype, values, info.same_as});
  }
  return tensors;
}

std::vector<GgufTensor> gguf_tensors(const WeightSource& source, const WrittenCallback& written) {
  std::vector<GgufTensor> tensors;
  for (const TensorInfo& info : source.tensors()) {
    const GgmlType* type = find_ggml_type(info.stored_as);
    if (type == nullptr || type->dtype.has_value()) type = info.dtype ? ggml_type_of(*info.dtype) : nullptr;
    INGOT_CHECK(
        type != nullptr,
        InvalidConfig(info.name, fmt::format("GGUF has no element type for {}; choose another with --dtype",
                                             info.stored_as)));
    tensors.push_back({info.name, info.shape, type, [&source, &info, written](GgufTensor::Sink sink) {
                         const Blob bytes = source.stored_bytes(info.name);
                         sink(bytes.bytes);
                         if (written) written(bytes.bytes.size());
                       }});
  }
  return tensors;
}

}  // namespace ingot
