#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ingot/data/preference.h"
#include "ingot/train/language/grpo_config.h"

namespace ingot {

class ConfigReader;

/// What a run learns from.
enum class ObjectiveKind : std::uint8_t {
  supervised,  ///< text, chats: the next token
  dpo,         ///< pairs, against a reference model (Rafailov et al. 2023)
  ipo,         ///< the same with a squared loss (Azar et al. 2023)
  orpo,        ///< pairs by their odds ratio, beside the likelihood of the chosen (Hong et al. 2024)
  simpo,       ///< pairs by their mean log-probability and a margin (Meng et al. 2024)
  grpo,        ///< prompts, by the rewards of the model's own answers (Shao et al. 2024)
  kto,         ///< single answers, each good or not (Ethayarajh et al. 2024)
};
/// "sft", "dpo", ...
std::string_view name(ObjectiveKind kind);

/// How DPO turns the difference of log-ratios into a loss.
enum class DpoLoss : std::uint8_t { sigmoid, hinge, robust };

/// `rl` and the keys beside it, under axolotl's names.
struct ObjectiveConfig {
  ObjectiveKind kind = ObjectiveKind::supervised;
  double beta = 0.1;  ///< of all objectives; orpo_alpha
  DpoLoss dpo_loss = DpoLoss::sigmoid;
  double label_smoothing = 0;                           ///< probability that a pair is the wrong way round
  double simpo_gamma = 0.5;                             ///< the margin that SimPO wants
  double cpo_alpha = 1;                                 ///< SimPO: weight of the likelihood of the chosen
  double desirable_weight = 1, undesirable_weight = 1;  ///< KTO

  GrpoConfig grpo;

  /// What records have to be; nothing where they are not preferences.
  std::optional<data::PreferenceKind> preferences() const;
  /// Whether it compares with the model that training began from.
  bool has_reference() const;
};

/// Reads `rl`, `rl_beta`, `dpo_label_smoothing`, `orpo_alpha`, `kto_desirable_weight` and their kin.
ObjectiveConfig read_objective(const ConfigReader& root);

}  // namespace ingot
