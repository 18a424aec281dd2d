#include "ingot/models/language/gguf_layer_numbers.h"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/core/tensor.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/view.h"
#include "ingot/weights/extended_source.h"

namespace ingot {
namespace {

std::string layer_number_name(const GgufLayerNumber& number, std::int64_t layer) {
  std::string name(number.hugging_face);
  return name.replace(name.find('*'), 1, std::to_string(layer));
}

// One number of each layer, from a list or from one for all.
std::vector<double> layer_number_values(const GgufMetadata& metadata, const GgufLayerNumber& number,
                                        std::int64_t layers) {
  const GgufValue* value = metadata.find(number.gguf);
  INGOT_CHECK(value != nullptr, FormatError(metadata.file(), -1, std::string(number.gguf), "is missing"));
  if (!value->is_array) {
    const std::optional<double> one = metadata.number(number.gguf);
    return std::vector<double>(static_cast<std::size_t>(layers), *one);
  }
  std::vector<double> all = *metadata.numbers(number.gguf);
  INGOT_CHECK(static_cast<std::int64_t>(all.size()) == layers,
              FormatError(metadata.file(), -1, std::string(number.gguf),
                          fmt::format("has {} numbers for {} layers", all.size(), layers)));
  return all;
}

}  // namespace

bool LayerNumbers::take(const std::string& name, const WeightSource& weights,
                        const std::string& stored_name) {
  for (const GgufLayerNumber& number : numbers_) {
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      if (name != layer_number_name(number, layer)) continue;
      const std::vector<float> values = to(weights.load_tensor(stored_name), DType::f32).to_vector<float>();
      INGOT_CHECK(values.size() == 1, IoError(weights.location(), fmt::format("'{}' has {} numbers, not one",
                                                                              stored_name, values.size())));
      taken_[name] = static_cast<double>(values.front());
      return true;
    }
  }
  return false;
}

void LayerNumbers::write(GgufMetadata& metadata, const std::string& place) const {
  for (const GgufLayerNumber& number : numbers_) {
    std::vector<float> values;
    values.reserve(static_cast<std::size_t>(layers_));
    for (std::int64_t layer = 0; layer < layers_; ++layer) {
      const auto found = taken_.find(layer_number_name(number, layer));
      INGOT_CHECK(found != taken_.end(),
                  IoError(place, fmt::format("lacks '{}'", layer_number_name(number, layer))));
      values.push_back(static_cast<float>(found->second));
    }
    metadata.set(std::string(number.gguf), GgufValue::of_f32s(values));
  }
}

std::vector<std::string> layer_number_names(std::span<const GgufLayerNumber> numbers, std::int64_t layers) {
  std::vector<std::string> names;
  for (const GgufLayerNumber& number : numbers)
    for (std::int64_t layer = 0; layer < layers; ++layer) names.push_back(layer_number_name(number, layer));
  return names;
}

std::shared_ptr<const WeightSource> with_layer_numbers(std::shared_ptr<const WeightSource> source,
                                                       const GgufMetadata& metadata,
                                                       std::span<const GgufLayerNumber> numbers,
                                                       std::int64_t layers) {
  if (numbers.empty()) return source;
  std::map<std::string, Tensor> tensors;
  for (const GgufLayerNumber& number : numbers) {
    const std::vector<double> values = layer_number_values(metadata, number, layers);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto value = static_cast<float>(values[static_cast<std::size_t>(layer)]);
      const Tensor one = Tensor::from(std::vector<float>{value}, {1});
      tensors[layer_number_name(number, layer)] = number.scalar ? select(one, 0, 0) : one;
    }
  }
  return with_tensors(std::move(source), std::move(tensors));
}

}  // namespace ingot
