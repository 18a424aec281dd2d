#include "ingot/train/language/distillation_config.h"

#include <utility>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/train/language/config.h"

namespace ingot {

void check_distillation_keys(const ConfigReader& root, const DistillationConfig& config) {
  constexpr const char* kFromWhom =
      "needs a teacher: kd_teacher names a model, kd_logprobs what `ingot data capture` wrote of one";
  // Of keys that say what others say; the effective configuration is without them.
  const auto says = [&root](const char* key, bool otherwise) {
    if (root.has(key)) return root.get(key, otherwise);
    static_cast<void>(root.skip(key));
    return otherwise;
  };
  if (says("kd_trainer", false) && !config.enabled()) root.fail("kd_trainer", kFromWhom);
  // A configuration that a run has written names all keys, with their defaults.
  using Member = double DistillationConfig::*;
  for (const auto& [key, member] : {std::pair<const char*, Member>{"kd_alpha", &DistillationConfig::alpha},
                                    {"kd_ce_alpha", &DistillationConfig::ce_alpha},
                                    {"kd_temperature", &DistillationConfig::temperature},
                                    {"kd_beta", &DistillationConfig::beta}})
    if (!config.enabled() && config.*member != DistillationConfig{}.*member) root.fail(key, kFromWhom);
  if (!says("kd_normalize_topk", true))
    root.fail("kd_normalize_topk", "is always true here: what was captured sums to 1; leave it out");
  for (const char* key : {"kd_online_server_base_url", "kd_online_server_model", "kd_online_topk"})
    if (!root.skip(key).empty())
      root.fail(key, "teachers run in the training process; name the model in kd_teacher");
  for (const char* key : {"kd_online_server", "kd_online_timeout", "kd_online_max_new_tokens"})
    static_cast<void>(root.skip(key));
  if (!root.skip("kd_temperature_min").empty())
    root.fail("kd_temperature_min", "the temperature does not change during a run; write kd_temperature");
}

void validate_distillation(const TrainConfig& config) {
  const DistillationConfig& kd = config.distillation;
  if (!kd.enabled()) return;
  const auto require = [](bool holds, const char* key, const char* problem) {
    INGOT_CHECK(holds, InvalidConfig(key, problem));
  };
  require(kd.teacher.empty() || kd.logprobs.empty(), "kd_logprobs",
          "is set beside kd_teacher; choose one of them");
  require(config.objective.kind == ObjectiveKind::supervised, "kd_teacher",
          "is for texts and chats; leave rl out");
  require(kd.alpha + kd.ce_alpha > 0, "kd_alpha", "is 0, and kd_ce_alpha too: nothing would be learned");
  require(kd.logprobs.empty() || kd.beta == 0, "kd_beta",
          "needs the probability of every token, and kd_logprobs has the largest only; write kd_beta: 0, or "
          "name kd_teacher");
  require(config.z_loss == 0 || kd.ce_alpha > 0, "z_loss",
          "is a part of the cross-entropy, whose weight kd_ce_alpha is 0");
}

}  // namespace ingot
