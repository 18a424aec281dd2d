#include "ingot/infer/matrix_sizes.h"

#include <memory>
#include <string>

#include "tests/models/goldens.h"
#include <gtest/gtest.h>

#include "ingot/models/language/decoder.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/visit.h"

namespace ingot::infer {
namespace {

class MatrixSizesOf : public ::testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<LanguageModel> model_ = load_language_model(test::golden_path(GetParam()));
};

// Of linear layers and experts' stacks; an embedding, of tokens or positions, multiplies where it makes
// logits.
double elements_that_multiply(LanguageModel& model) {
  double elements = 0;
  for (const auto& [name, weight] : named_weights(model)) {
    const bool looked_up = name.find("embed") != std::string::npos && weight != &model.head();
    if (!looked_up) elements += static_cast<double>(weight->shape().numel());
  }
  for (const auto& layer : model.layers) {
    if (layer->experts == nullptr) continue;
    const MoeMlp& e = *layer->experts;
    for (const ExpertLinear* stack :
         {static_cast<const ExpertLinear*>(e.gate_proj.get()), &e.up_proj, &e.down_proj})
      if (stack != nullptr) elements += static_cast<double>(stack->dense.value.numel());
  }
  return elements;
}

TEST_P(MatrixSizesOf, CountEveryMatrixThatMultipliesOnce) {
  const MatrixSizes sizes = matrix_sizes(*model_);
  EXPECT_EQ(sizes.elements, elements_that_multiply(*model_));
  EXPECT_EQ(sizes.bytes, 4 * sizes.elements);
}

TEST_P(MatrixSizesOf, OfAModelWithExpertsATokenPassesTheChosenOnes) {
  const MatrixSizes all = matrix_sizes(*model_), active = active_matrix_sizes(*model_);
  const LanguageConfig& c = model_->config;
  double idle = 0;
  for (const auto& [name, parameter] : named_parameters(*model_)) {
    if (name.find(".experts.") == std::string::npos || parameter->shape().rank() != 3) continue;
    idle += static_cast<double>(parameter->value.numel()) *
            (1 - static_cast<double>(c.num_experts_per_tok) / static_cast<double>(c.num_experts));
  }
  EXPECT_NEAR(all.elements - active.elements, idle, 1e-6 * all.elements);
}

TEST_P(MatrixSizesOf, TheLastTokenAlonePassesTheHeadAndWhatFollowsTheLastAttention) {
  const MatrixSizes sizes = active_matrix_sizes(*model_);
  const DecoderLayer& last = *model_->layers.back();
  double elements = static_cast<double>(model_->head().shape().numel());
  if (last.self_attn != nullptr && last.mamba == nullptr)
    elements += static_cast<double>(last.self_attn->o_proj.weight.shape().numel());
  if (last.mlp != nullptr) {
    for (std::size_t i = 0; i < last.mlp->in_proj.size(); ++i)
      elements += static_cast<double>(last.mlp->in_proj[i].weight.shape().numel());
    elements += static_cast<double>(last.mlp->down_proj.weight.shape().numel());
  }
  if (last.self_attn != nullptr && last.mamba == nullptr && last.experts == nullptr) {
    EXPECT_EQ(sizes.head, elements);
  } else {
    EXPECT_GT(sizes.head, elements);  // with experts, or another mixer's output
  }
  EXPECT_LT(sizes.head, sizes.elements);
}

INSTANTIATE_TEST_SUITE_P(Families, MatrixSizesOf,
                         ::testing::Values("llama_gqa_llama3", "qwen3", "mixtral_tied", "deepseek_v3_moe",
                                           "gpt2_untied", "mamba2", "gpt_oss_moe", "qwen3_next_moe",
                                           "nemotron_h_latent_moe", "falcon_h1", "lfm2_moe",
                                           "granitehybrid_moe"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace ingot::infer
