#include "ingot/models/language/gguf_gemma3n.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/models/language/sparse_gate.h"
#include "ingot/models/require.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPattern = "attention.sliding_window_pattern";
constexpr const char* kScales = "activation_sparsity_scale";

// Of f32 deviations: the decimal number that they were made of, where there is a short one.
double sparsity_of(double deviations) {
  if (!(deviations > -std::numeric_limits<double>::infinity())) return 0;
  const double exact = normal_probability(deviations), shorter = std::round(exact * 1e6) / 1e6;
  const bool same = shorter > 0 && shorter < 1 &&
                    std::abs(normal_quantile(shorter) - deviations) <= 1e-6 * (1 + std::abs(deviations));
  return same ? shorter : exact;
}

std::int64_t layers_of(const GgufFacts& facts) {
  const std::int64_t layers = facts.required("block_count");
  INGOT_CHECK(layers <= kMaxModelLayers,
              FormatError(facts.path(), -1, facts.key("block_count"),
                          fmt::format("{} layers are more than any model has", layers)));
  return layers;
}

template <class T>
void check_count(const GgufFacts& facts, const char* name, const std::vector<T>& all, std::int64_t layers) {
  INGOT_CHECK(std::ssize(all) == layers,
              FormatError(facts.path(), -1, facts.key(name),
                          fmt::format("has {} elements for {} layers", all.size(), layers)));
}

// A list of truths, or every how many layers one sees everything: 5, as llama.cpp has it.
Json kinds_of(const GgufFacts& facts, std::int64_t layers) {
  std::vector<std::int64_t> slides = facts.of_layers(kPattern);
  if (slides.empty()) {
    const std::int64_t period = facts.integer(kPattern).value_or(5);
    INGOT_CHECK(period > 0, FormatError(facts.path(), -1, facts.key(kPattern),
                                        fmt::format("is {}; a number of layers is 1 or more", period)));
    for (std::int64_t i = 0; i < layers; ++i) slides.push_back((i + 1) % period == 0 ? 0 : 1);
  }
  check_count(facts, kPattern, slides, layers);
  Json kinds = Json::array();
  for (const std::int64_t slides_here : slides)
    kinds.push_back(slides_here != 0 ? "sliding_attention" : "full_attention");
  return kinds;
}

}  // namespace

void write_gemma3n_layers(const LanguageConfig& c, GgufMetadata& metadata) {
  std::vector<std::uint64_t> slides;
  std::vector<float> scales;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
    slides.push_back(c.slides(i) ? 1 : 0);
    scales.push_back(c.sparsity(i) > 0 ? static_cast<float>(normal_quantile(c.sparsity(i)))
                                       : -std::numeric_limits<float>::infinity());
  }
  metadata.set(fmt::format("gemma3n.{}", kPattern),
               GgufValue{.type = GgufType::boolean, .is_array = true, .items = std::move(slides)});
  metadata.set(fmt::format("gemma3n.{}", kScales), GgufValue::of_f32s(scales));
}

void read_gemma3n_layers(const GgufFacts& facts, const GgufSource& source, Json& config) {
  const std::int64_t layers = layers_of(facts);
  config["layer_types"] = kinds_of(facts, layers);
  if (const std::vector<std::int64_t> widths = facts.of_layers("feed_forward_length"); !widths.empty())
    config["intermediate_size"] = widths;
  Json sparsity = Json::array();
  if (const auto scales = source.fields().numbers(facts.key(kScales))) {
    check_count(facts, kScales, *scales, layers);
    for (const double deviations : *scales) sparsity.push_back(sparsity_of(deviations));
  } else {
    constexpr std::int64_t kSparse = 10;  // as llama.cpp has it
    for (std::int64_t i = 0; i < layers; ++i) sparsity.push_back(i < kSparse ? 0.95 : 0.0);
  }
  config["activation_sparsity_pattern"] = sparsity;
  config["vocab_size_per_layer_input"] = config["vocab_size"];
  if (!facts.integer("attention.shared_kv_layers")) {
    constexpr std::int64_t kWithKeys = 20;  // as llama.cpp has it
    config["num_kv_shared_layers"] = std::max<std::int64_t>(layers - kWithKeys, 0);
  }
  const TensorInfo* left = source.find("blk.0.laurel_l.weight");
  INGOT_CHECK(left != nullptr && left->shape.size() == 2,
              FormatError(facts.path(), -1, "blk.0.laurel_l.weight", "is missing, or not a matrix"));
  config["laurel_rank"] = left->shape[0];
}

}  // namespace ingot
