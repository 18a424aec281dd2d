#include "ingot/models/language/family.h"

#include <algorithm>
#include <iterator>

#include "ingot/models/language/families/families.h"
#include "ingot/models/registry.h"
#include "ingot/models/require.h"

namespace ingot {
namespace {

std::vector<LanguageFamily> all_families() {
  std::vector<LanguageFamily> all;
  using Rows = std::vector<LanguageFamily> (*)();
  for (const Rows rows :
       {families::llama,    families::mistral,     families::qwen,      families::gemma,
        families::phi,      families::gpt2,        families::olmo,      families::granite,
        families::glm,      families::cohere,      families::exaone,    families::starcoder,
        families::nemotron, families::stablelm,    families::gpt_neox,  families::gpt_oss,
        families::deepseek, families::dots,        families::minimax,   families::falcon,
        families::bloom,    families::mpt,         families::opt,       families::lfm2,
        families::mamba,    families::qwen_hybrid, families::falcon_h1, families::nemotron_h,
        families::apertus,  families::llama4,      families::gemma3n,   families::gemma4}) {
    std::vector<LanguageFamily> some = rows();
    std::ranges::move(some, std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::span<const LanguageFamily> language_families() {
  static const std::vector<LanguageFamily> kFamilies = all_families();
  return kFamilies;
}

const LanguageFamily* find_language_family(std::string_view model_type) {
  const std::span<const LanguageFamily> all = language_families();
  const auto found = std::ranges::find(all, model_type, &LanguageFamily::model_type);
  return found == all.end() ? nullptr : &*found;
}

namespace {

// What the text part is where text_config does not say.
std::string default_text_part(const std::string& whole) {
  for (const LanguageFamily& family : language_families())
    if (std::ranges::find(family.text_part_of, whole) != family.text_part_of.end())
      return std::string(family.model_type);
  return whole + "_text";
}

}  // namespace

std::string text_model_type(std::string_view text, const std::string& path) {
  const ConfigFile file(text, path);
  std::string whole, part;
  file.read("model_type", whole);
  const auto text_config = file.object("text_config");
  if (!text_config.has_value()) return whole;
  text_config->read("model_type", part);
  if (part.empty()) part = default_text_part(whole);
  return find_language_family(part) != nullptr ? part : whole;
}

const LanguageFamily& language_family(const std::string& model_type, const std::string& where) {
  if (const LanguageFamily* family = find_language_family(model_type)) return *family;
  throw_unsuitable_model(model_type, ModelTask::generate, where);
}

std::vector<std::string> known_language_families() {
  std::vector<std::string> names;
  names.reserve(language_families().size());
  for (const LanguageFamily& family : language_families()) names.emplace_back(family.model_type);
  return names;
}

void apply_family(LanguageConfig& config) {
  const LanguageFamily& family = language_family(config.model_type, "model_type");
  static_cast<DecoderTraits&>(config) = family.traits;
  config.attention_multiplier = family.attention_multiplier;
}

std::vector<LayerKind> layers_with_windows(std::int64_t layers, std::int64_t pattern, std::int64_t first) {
  require_size(layers, "num_hidden_layers", kMaxModelLayers);  // before as many are listed
  std::vector<LayerKind> kinds;
  kinds.reserve(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool sliding = pattern > 0 ? (i + 1) % pattern != 0 : i >= first;
    kinds.push_back(sliding ? LayerKind::sliding : LayerKind::full);
  }
  return kinds;
}

void apply_sliding_pattern(LanguageConfig& config) {
  const LanguageFamily& family = language_family(config.model_type, "model_type");
  if (config.sliding_window == 0 || family.sliding_pattern == 0) return;
  config.layer_types = layers_with_windows(config.num_hidden_layers, family.sliding_pattern, 0);
  if (family.ends_with_full) config.layer_types.back() = LayerKind::full;
}

}  // namespace ingot
