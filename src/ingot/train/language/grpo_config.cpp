#include "ingot/train/language/grpo_config.h"

#include <fmt/format.h>

#include "ingot/base/config.h"

namespace ingot {
namespace {

// Which engine writes the answers, and what is printed of them: the result is the same, or the reporters'
// part.
const std::vector<std::string> kTrlWithoutEffect{"use_vllm",
                                                 "vllm_mode",
                                                 "vllm_device",
                                                 "vllm_gpu_memory_utilization",
                                                 "vllm_max_model_len",
                                                 "vllm_dtype",
                                                 "vllm_server_host",
                                                 "vllm_server_port",
                                                 "vllm_server_timeout",
                                                 "vllm_guided_decoding_regex",
                                                 "vllm_tensor_parallel_size",
                                                 "vllm_enable_sleep_mode",
                                                 "log_completions",
                                                 "num_completions_to_print",
                                                 "use_liger_loss",
                                                 "ref_model_mixup_alpha",
                                                 "ref_model_sync_steps",
                                                 "generation_batch_size"};

RewardScale read_scale(const ConfigReader& trl) {
  const auto word = trl.get("scale_rewards", std::string("group"));
  if (word == "group" || word == "true" || word == "True") return RewardScale::group;
  if (word == "none" || word == "false" || word == "False") return RewardScale::none;
  if (word == "batch") return RewardScale::batch;
  trl.fail("scale_rewards", fmt::format("must be one of group, batch, none, got '{}'", word));
}

GrpoLossType read_loss_type(const ConfigReader& trl) {
  const std::string type = trl.choice("loss_type", "dapo", {"grpo", "bnpo", "dr_grpo", "dapo"});
  if (type == "grpo") return GrpoLossType::grpo;
  if (type == "bnpo") return GrpoLossType::bnpo;
  return type == "dr_grpo" ? GrpoLossType::dr_grpo : GrpoLossType::dapo;
}

void read_sampling(const ConfigReader& trl, GrpoConfig& grpo) {
  grpo.num_generations = trl.get("num_generations", grpo.num_generations, at_least(2));
  grpo.max_completion_length = trl.get("max_completion_length", grpo.max_completion_length, at_least(1));
  grpo.temperature = trl.get("temperature", grpo.temperature, positive());
  grpo.top_p = trl.get("top_p", grpo.top_p, between(0, 1));
  grpo.top_k = trl.get("top_k", grpo.top_k, at_least(0));
  grpo.min_p = trl.get("min_p", grpo.min_p, between(0, 1));
  grpo.repetition_penalty = trl.get("repetition_penalty", grpo.repetition_penalty, positive());
}

void read_rewards(const ConfigReader& root, const ConfigReader& trl, GrpoConfig& grpo) {
  if (trl.has("reward_funcs"))
    trl.fail(
        "reward_funcs",
        "names Python functions, which do not run here; write rewards: [{type: regex, json, json_schema, "
        "math, command or http}]");
  static_cast<void>(trl.skip("reward_funcs"));
  for (const ConfigReader& entry : root.sections("rewards")) grpo.rewards.push_back(read_reward(entry));
  if (grpo.rewards.empty())
    root.fail("rewards", "is missing: name what scores the answers, as in rewards: [{type: json}]");
  const auto weights = trl.get("reward_weights", std::vector<double>{});
  if (!weights.empty() && weights.size() != grpo.rewards.size())
    trl.fail("reward_weights",
             fmt::format("has {} numbers for {} rewards", weights.size(), grpo.rewards.size()));
  for (std::size_t i = 0; i < weights.size(); ++i) grpo.rewards[i].weight = weights[i];
}

}  // namespace

std::vector<double> GrpoConfig::weights() const {
  std::vector<double> all;
  all.reserve(rewards.size());
  for (const RewardConfig& reward : rewards) all.push_back(reward.weight);
  return all;
}

GrpoConfig read_grpo(const ConfigReader& root, bool normalize_then_sum) {
  GrpoConfig grpo;
  const ConfigReader trl = root.section("trl");
  read_sampling(trl, grpo);
  grpo.beta = trl.get("beta", grpo.beta, at_least(0));
  grpo.epsilon = trl.get("epsilon", grpo.epsilon, positive());
  grpo.epsilon_high = trl.get("epsilon_high", grpo.epsilon, positive());
  grpo.loss_type = read_loss_type(trl);
  grpo.scale_rewards = read_scale(trl);
  grpo.normalize_then_sum = trl.choice("multi_objective_aggregation",
                                       normalize_then_sum ? "normalize_then_sum" : "sum_then_normalize",
                                       {"normalize_then_sum", "sum_then_normalize"}) == "normalize_then_sum";
  grpo.mask_truncated_completions = trl.get("mask_truncated_completions", false);
  grpo.num_iterations = trl.get("num_iterations", grpo.num_iterations, at_least(1));
  if (trl.get("sync_ref_model", false)) trl.fail("sync_ref_model", "is not available: the reference stays");
  for (const std::string& key : kTrlWithoutEffect) static_cast<void>(trl.skip(key));
  read_rewards(root, trl, grpo);
  return grpo;
}

}  // namespace ingot
