// What plans count beside a model's own: rows of new tokens, logits of routers that are in the loss.
#include <string>
#include <vector>

#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/core/backend.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"
#include "ingot/train/language/gradient_step.h"
#include "ingot/train/language/language_task.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/train/language/new_tokens.h"

namespace ingot {
namespace {

class PlanAdditions : public test::TrainingRun {};

// The same pass, planned and run, with and without the loss of routers that choose among 256 experts.
TEST_F(PlanAdditions, LogitsOfRoutersAreKeptWhereTheyAreInTheLoss) {
  LanguageConfig model;
  model.model_type = "qwen3_moe";
  apply_family(model);
  model.vocab_size = 64;
  model.hidden_size = 32;
  model.intermediate_size = model.moe_intermediate_size = 8;
  model.num_hidden_layers = 3;
  model.num_attention_heads = 4;
  model.num_key_value_heads = 2;
  model.num_experts = 256;
  model.num_experts_per_tok = 1;
  model.validate();
  TrainConfig config;
  config.device = "cpu";
  config.per_device_train_batch_size = 4;
  config.sequence_len = 64;
  config.router_aux_loss_coef = 0;
  InitSource source(1);
  LanguageModel built(model, source);
  static_cast<void>(built.rope_tables(config.sequence_len));
  const Tensor tokens = Tensor::zeros({4, 64}, DType::i32);
  const DecoderInput input{.tokens = tokens, .positions = tokens};
  std::vector<std::size_t> planned, used;
  for (const double weight : {0.0, 0.1}) {
    config.router_z_loss_coef = weight;
    const MemoryPlan plan = plan_memory(config, model);
    planned.push_back(plan.gradients + plan.activations + plan.transients);
    MemoryTracker& memory = backend(kCpu).memory();
    for (const Parameter* parameter : parameters(built)) parameter->zero_grad();
    const std::size_t before = memory.allocated();
    memory.reset_peak();
    backward(built.loss(input, tokens, loss_options(config, model)));
    used.push_back(memory.peak() - before);
    const double ratio = static_cast<double>(planned.back()) / static_cast<double>(used.back());
    EXPECT_GE(ratio, 1) << weight;
    EXPECT_LE(ratio, 1.15) << weight;
  }
  ASSERT_GT(used[1], used[0]);
  const auto more = static_cast<double>(used[1] - used[0]);
  EXPECT_NEAR(static_cast<double>(planned[1]) - static_cast<double>(planned[0]), more, 0.15 * more);
}

TEST_F(PlanAdditions, RowsOfNewTokensAreThoseThatARunTrains) {
  for (const bool adapter : {true, false}) {
    SCOPED_TRACE(adapter ? "lora" : "full");
    TrainConfig c = tuning("cpu", adapter ? "lora" : "full", DType::f32, "");
    c.adapter.enabled = adapter;
    for (int i = 0; i < 40; ++i) c.samples.new_tokens.emplace_back("<new" + std::to_string(i) + ">", false);
    TrainConfig planned = c;
    const LanguageConfig model = plan_new_tokens(planned);
    LanguageTask task(c, std::nullopt, {});
    EXPECT_EQ(model.vocab_size, task.language_model().config.vocab_size);
    EXPECT_EQ(model.vocab_size, planned_architecture(c).vocab_size + 40);
    const auto trained =
        static_cast<std::size_t>(count_parameters(task.language_model(), /*trainable_only=*/true));
    const MemoryPlan plan = plan_memory(planned, model);
    EXPECT_EQ(plan.all_gradients, trained * sizeof(float));
    EXPECT_GT(plan.all_gradients, plan_memory(c, planned_architecture(c)).all_gradients);
  }
}

}  // namespace
}  // namespace ingot
