#include "ingot/nn/recipe/recipe.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"

namespace ingot {
namespace {

constexpr std::array<std::string_view, 5> kRecipes{"none", "bf16", "fp8_hybrid", "nvfp4", "bitnet"};
constexpr std::array<std::string_view, 2> kScalings{"delayed", "current"};

}  // namespace

std::string_view name(RecipeKind kind) { return kRecipes[static_cast<std::size_t>(kind)]; }
std::string_view name(Fp8Scaling scaling) { return kScalings[static_cast<std::size_t>(scaling)]; }

const std::vector<std::string>& recipe_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made(kRecipes.begin(), kRecipes.end());
    made.emplace_back("fp8-hybrid");
    return made;
  }();
  return names;
}

RecipeKind parse_recipe(std::string_view text) {
  const std::string_view wanted = text == "fp8-hybrid" ? "fp8_hybrid" : text;
  const auto* const found = std::ranges::find(kRecipes, wanted);
  INGOT_CHECK(found != kRecipes.end(), InvalidConfig("recipe", fmt::format("must be one of {}, got '{}'",
                                                                           fmt::join(kRecipes, ", "), text)));
  return static_cast<RecipeKind>(found - kRecipes.begin());
}

Fp8Scaling parse_fp8_scaling(std::string_view text) {
  const auto* const found = std::ranges::find(kScalings, text);
  INGOT_CHECK(found != kScalings.end(),
              InvalidConfig("fp8_scaling",
                            fmt::format("must be one of {}, got '{}'", fmt::join(kScalings, ", "), text)));
  return static_cast<Fp8Scaling>(found - kScalings.begin());
}

Recipe Recipe::from_name(std::string_view name) { return {.kind = parse_recipe(name)}; }

void Recipe::validate() const {
  const auto require = [](bool holds, const char* key, const std::string& problem) {
    INGOT_CHECK(holds, InvalidConfig(key, problem));
  };
  require(fp8_amax_history > 0, "fp8_amax_history",
          fmt::format("must be at least 1, got {}", fp8_amax_history));
  require(int8_block == 0 || int8_block == 32, "bitnet_activation_block",
          fmt::format("must be 0 (the whole row) or 32, got {}", int8_block));
  require(skip_first_layers >= 0, "skip_quant_first_layers",
          fmt::format("must be at least 0, got {}", skip_first_layers));
  require(skip_last_layers >= 0, "skip_quant_last_layers",
          fmt::format("must be at least 0, got {}", skip_last_layers));
  require(kind != RecipeKind::bitnet || skip_first_layers + skip_last_layers == 0, "skip_quant_first_layers",
          "must be 0 for recipe: bitnet, whose result is ternary in every layer");
}

}  // namespace ingot
