#include "ingot/models/language/family.h"

#include <algorithm>
#include <iterator>

#include "ingot/models/language/families/families.h"
#include "ingot/models/registry.h"

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
        families::apertus,  families::llama4,      families::gemma4}) {
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
  static_cast<DecoderTraits&>(config) = language_family(config.model_type, "model_type").traits;
}

}  // namespace ingot
