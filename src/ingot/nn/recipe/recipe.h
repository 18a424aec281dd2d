#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

enum class RecipeKind : std::uint8_t { none, bf16, fp8_hybrid, nvfp4, bitnet };

/// What the input's scale of fp8_hybrid comes from.
enum class Fp8Scaling : std::uint8_t {
  delayed,  ///< the largest magnitudes of the last steps
  current,  ///< the input itself (just in time)
};

/// In which number formats the matmuls of linear layers are trained. Operands are rounded, matmuls are
/// added up in f32:
///   bf16        all operands to bf16;
///   fp8_hybrid  input and weight to E4M3, gradients to E5M2, one scale each (Micikevicius et al. 2022);
///   nvfp4       all to NVFP4: E2M1, an E4M3 scale for each block and one of f32 for the tensor. Weights have
///               blocks of 16 x 16, others of 16 along the depth. Gradients are rounded stochastically, and
///               both operands of the weight's gradient go through a random Hadamard transform (NVIDIA 2025,
///               "Pretraining large language models with NVFP4");
///   bitnet      weights to -1, 0 or 1 times their mean magnitude, inputs to int8; gradients pass straight
///               through, unrounded (BitNet b1.58, Ma et al. 2024).
struct Recipe {
  RecipeKind kind = RecipeKind::none;
  Fp8Scaling fp8_scaling = Fp8Scaling::delayed;
  std::int64_t fp8_amax_history = 16;  ///< steps whose largest magnitudes count
  /// bitnet: columns of the input that share a scale; 0: the whole row, as in the paper. 32 is what matmuls
  /// in the `ternary` format round to.
  std::int64_t int8_block = 0;
  std::int64_t skip_first_layers = 0, skip_last_layers = 0;  ///< which stay as they are
  bool stochastic_rounding = true, hadamard = true;          ///< nvfp4: off for tests

  /// The recipe of this name with its defaults. InvalidConfig, which lists the names.
  static Recipe from_name(std::string_view name);
  bool is_on() const { return kind != RecipeKind::none; }
  /// Whether scales depend on earlier steps.
  bool has_history() const { return kind == RecipeKind::fp8_hybrid && fp8_scaling == Fp8Scaling::delayed; }
  /// Throws InvalidConfig naming the key.
  void validate() const;
};

/// "none", "bf16", "fp8_hybrid", "nvfp4", "bitnet"; and what parse_recipe() takes, "fp8-hybrid" besides.
std::string_view name(RecipeKind kind);
const std::vector<std::string>& recipe_names();
RecipeKind parse_recipe(std::string_view name);
std::string_view name(Fp8Scaling scaling);
Fp8Scaling parse_fp8_scaling(std::string_view name);

}  // namespace ingot
