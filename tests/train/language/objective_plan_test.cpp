#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/core/backend.h"
#include "ingot/infer/engine.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/models/language/kv_cache.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/param_source.h"
#include "ingot/train/language/answer_batch.h"
#include "ingot/train/language/distillation.h"
#include "ingot/train/language/grpo_loss.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/train/language/preference_pass.h"

// What objectives take beside supervised training: two answers, a reference, a teacher, answers that are
// written.
namespace ingot {
namespace {

constexpr std::int64_t kAnswers = 2, kAnswerLength = 48, kAnswer = 24;

LanguageConfig tiny() {
  LanguageConfig c;
  c.model_type = "llama";
  c.vocab_size = 260;
  c.hidden_size = 64;
  c.intermediate_size = 160;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  apply_family(c);
  c.validate();
  return c;
}

TrainConfig settings(ObjectiveKind kind, Recompute recompute) {
  TrainConfig c;
  c.device = "cpu";
  c.per_device_train_batch_size = kAnswers;
  c.sequence_len = kAnswerLength;
  c.recompute = recompute;
  c.objective.kind = kind;
  c.objective.grpo.max_completion_length = kAnswer;
  return c;
}

data::PromptedAnswer answer_of(std::int64_t prompt) {
  data::PromptedAnswer answer{.tokens = {}, .prompt = prompt};
  for (std::int32_t i = 0; i < kAnswerLength; ++i) answer.tokens.push_back(i * 7 % 260);
  return answer;
}

// As the plan of supervised training has to.
void expect_near_plan(const TrainConfig& config, const LanguageModel& model,
                      const std::function<Tensor()>& loss) {
  MemoryTracker& memory = backend(kCpu).memory();
  const std::size_t before = memory.allocated();
  memory.reset_peak();
  backward(loss());  // which makes the parameters' gradients
  const auto used = static_cast<double>(memory.peak() - before);
  const MemoryPlan plan = plan_memory(config, model.config);
  const double ratio = static_cast<double>(plan.gradients + plan.activations + plan.transients) / used;
  const std::string text =
      std::string(name(config.objective.kind)) + " " + std::string(name(config.recompute));
  EXPECT_GE(ratio, 1) << text;
  EXPECT_LE(ratio, 1.15) << text;
}

template <class F>
void for_each_recomputation(const F& check) {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    InitSource source(1);
    LanguageModel model(tiny(), source);
    model.recompute = recompute;
    static_cast<void>(model.rope_tables(kAnswerLength));
    check(model, recompute);
  }
}

ReferenceRun itself(const LanguageModel& model) {
  return [&model](FunctionRef<void(const LanguageModel&)> f) {
    const NoGrad no_grad;
    f(model);
  };
}

TEST(ObjectivePlan, OfPreferencesHoldsBothAnswersAndTheReference) {
  for (const ObjectiveKind kind :
       {ObjectiveKind::dpo, ObjectiveKind::orpo, ObjectiveKind::simpo, ObjectiveKind::kto}) {
    for_each_recomputation([&](const LanguageModel& model, Recompute recompute) {
      const TrainConfig config = settings(kind, recompute);
      data::Preference row{.chosen = answer_of(1)};
      if (kind != ObjectiveKind::kto) row.rejected = row.chosen;
      const PreferencePass pass(config, model,
                                config.objective.has_reference() ? itself(model) : ReferenceRun{});
      const PreferencePass::Rows rows(kAnswers, row);
      expect_near_plan(config, model, [&] { return pass.loss(rows).loss; });
    });
  }
}

TEST(ObjectivePlan, OfGrpoHoldsTheLogProbabilitiesOfTheModelAndTheReference) {
  for (const double beta : {0.0, 0.1}) {
    for_each_recomputation([&](const LanguageModel& model, Recompute recompute) {
      TrainConfig config = settings(ObjectiveKind::grpo, recompute);
      config.objective.grpo.beta = beta;
      const data::PromptedAnswer answer = answer_of(kAnswerLength - kAnswer);
      const std::vector<const data::PromptedAnswer*> answers(kAnswers, &answer);
      expect_near_plan(config, model, [&] {
        const AnswerBatch batch = make_answer_batch(answers, 0, kAnswerLength, kCpu);
        const auto log_probs = [&] {
          return answer_log_probs(model, hidden_of(model, batch), batch, config.objective.grpo.temperature);
        };
        GrpoBatch part{.mask = batch.mask, .advantages = Tensor::zeros({kAnswers, 1}), .step_tokens = 48};
        if (config.objective.has_reference()) {
          const NoGrad no_grad;
          part.reference = log_probs();
        }
        part.log_probs = log_probs();
        return grpo_loss(config.objective.grpo, part).loss;
      });
    });
  }
}

// Between two passes: the plan has what is there then.
TEST(ObjectivePlan, OfGrpoHoldsTheKeysAndValuesOfAllAnswersOfAStep) {
  constexpr std::int64_t kContext = 384, kWritten = 192;  // all are read before the first one ends
  TrainConfig config = settings(ObjectiveKind::grpo, Recompute::full);
  config.sequence_len = kContext;
  config.objective.grpo.max_completion_length = kWritten;
  config.gradient_accumulation_steps = 8;
  InitSource source(1);
  const LanguageModel model(tiny(), source);
  const MemoryPlan plan = plan_memory(config, model.config);
  MemoryTracker& memory = backend(kCpu).memory();
  const std::size_t before = memory.allocated();
  memory.reset_peak();
  infer::Engine engine(model, {.context = kContext});
  for (std::int64_t i = 0; i < kAnswers * 8; ++i) {
    infer::Request request{.prompt = std::vector<std::int32_t>(kContext - kWritten, 1),
                           .max_tokens = kWritten};
    request.prompt[0] = static_cast<std::int32_t>(i);
    engine.start(std::move(request));
  }
  std::int64_t tokens = 0;  // whose keys and values lie in pages of their own, on a CPU
  while (engine.step()) tokens = std::max(tokens, engine.stats().cache.running);
  const std::size_t kept =
      static_cast<std::size_t>(tokens) * KvCache(model.config, 1, engine.kv_cache()).token_bytes();
  const auto used = static_cast<double>(memory.peak() - before + kept);
  const double planned = static_cast<double>(plan.rollout - plan.parameters - plan.optimizer);
  EXPECT_GE(planned / used, 1);
  EXPECT_LE(planned / used, 1.15);
  EXPECT_GE(plan.needed(), plan.rollout);
  config.ordered_gradients = true;  // whose buckets and sums stay while answers are written
  const MemoryPlan ordered = plan_memory(config, model.config);
  EXPECT_EQ(ordered.sums, 2 * ordered.all_gradients);
  EXPECT_EQ(ordered.rollout, plan.rollout + ordered.sums);
}

// ZeRO stage 3 gathers all layers to write answers, beside the rank's part.
TEST(ObjectivePlan, OfGrpoHoldsAllLayersBesideTheKeysAndValuesWhereRanksShareTheWeights) {
  TrainConfig config = settings(ObjectiveKind::grpo, Recompute::full);
  const LanguageConfig model = tiny();
  const auto all = static_cast<std::size_t>(model.parameter_count()) * sizeof(float);
  const MemoryPlan whole = plan_memory(config, model, 4);
  config.zero_stage = 3;
  const MemoryPlan shared = plan_memory(config, model, 4);
  const auto beside = [](const MemoryPlan& plan) { return plan.optimizer + plan.sums; };
  EXPECT_EQ(shared.rollout - beside(shared), whole.rollout - beside(whole) + all / 4);
  EXPECT_GE(shared.needed(), shared.rollout);
}

class DistillationPlan : public test::TrainingRun {};

TEST_F(DistillationPlan, HoldsTheTeachersPass) {
  TrainConfig large = config("cpu", "teacher");
  large.architecture.hidden_size = large.architecture.intermediate_size = 128;
  large.max_steps = 1;
  LanguageTrainer(large).run();
  const std::string teacher = large.output_dir + "/model";
  for_each_recomputation([&](const LanguageModel& model, Recompute recompute) {
    TrainConfig config = settings(ObjectiveKind::supervised, recompute);
    config.distillation.teacher = teacher;
    const Distillation distillation(config.distillation, model,
                                    load_language_model(teacher, {.dtype = DType::f32, .trainable = false}));
    const Tensor tokens = Tensor::zeros({kAnswers, kAnswerLength}, DType::i32);
    const data::Batch batch{
        .tokens = tokens, .targets = tokens, .positions = tokens, .valid_targets = tokens.numel()};
    const DecoderInput input{.tokens = tokens,
                             .positions = Tensor::zeros({kAnswers, kAnswerLength}, DType::i32),
                             .length = kAnswerLength};
    expect_near_plan(config, model, [&] { return distillation.loss(model, batch, input, {}); });
  });
}

}  // namespace
}  // namespace ingot
