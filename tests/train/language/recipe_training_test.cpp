// Training with a recipe: that it is asked for by key, learns, goes on bit for bit, and what it leaves out.
#include "ingot/train/language/recipe_training.h"

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/op_case.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thread_ranks.h"
#include "tests/train/cuda/training_run.h"

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/recipe/recipe.h"
#include "ingot/train/checkpoint_directory.h"
#include "ingot/train/language/memory_plan.h"

namespace ingot {
namespace {

using test::message_of;

class RecipeTraining : public test::TrainingRun {
 protected:
  TrainConfig with(const std::string& recipe, const std::string& output) const {
    TrainConfig c = config("cpu", output);
    c.architecture.hidden_size = 32;
    c.architecture.intermediate_size = 64;
    c.architecture.num_key_value_heads = 2;
    c.recipe = Recipe::from_name(recipe);
    return c;
  }
};

// A format that did nothing would be below its bounds. The mean distance of a run's losses from those without
// a recipe, as a share of them. Few steps: later two runs drift apart by chance, whatever the first
// difference was.
TEST_F(RecipeTraining, EveryRecipeFollowsFullPrecisionAsCloselyAsItsFormatAllows) {
  const auto run = [&](const std::string& recipe) {
    TrainConfig c = with(recipe, recipe);
    c.max_steps = 12;
    c.optimizer.learning_rate = 3e-3;
    return losses_of(c);
  };
  const std::vector<double> plain = run("none");
  EXPECT_LT(plain.back(), plain.front() - 0.3);
  const auto expect_distance = [&](const std::string& recipe, double least, double most) {
    const std::vector<double> losses = run(recipe);
    double distance = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) distance += std::abs(losses[i] - plain[i]) / plain[i];
    distance /= static_cast<double>(losses.size());
    EXPECT_GT(distance, least) << recipe;
    EXPECT_LT(distance, most) << recipe;
  };
  expect_distance("bf16", 0, 1e-4);
  expect_distance("fp8_hybrid", 5e-5, 2e-3);
  expect_distance("nvfp4", 2e-4, 5e-3);
  expect_distance("bitnet", 2e-3, 4e-2);
}

TEST_F(RecipeTraining, ResumingGivesTheBitsOfARunThatNeverStopped) {
  for (const std::string recipe : {"bf16", "fp8_hybrid", "nvfp4", "bitnet"}) {
    SCOPED_TRACE(recipe);
    TrainConfig whole = with(recipe, "whole " + recipe), c = with(recipe, "stopped " + recipe);
    whole.max_steps = c.max_steps = 4;
    LanguageTrainer(whole).run();
    int steps = 0;
    LanguageTrainer(c, {.should_stop = [&] { return ++steps == 2; }}).run();
    c.resume_from_checkpoint = true;
    LanguageTrainer(c).run();
    EXPECT_EQ(tensor_files(CheckpointDirectory(c.output_dir).path(4)),
              tensor_files(CheckpointDirectory(whole.output_dir).path(4)));
  }
}

TEST_F(RecipeTraining, ARunDoesNotGoOnWithAnotherRecipe) {
  TrainConfig c = with("none", "run");
  int steps = 0;
  LanguageTrainer(c, {.should_stop = [&] { return ++steps == 2; }}).run();
  c.resume_from_checkpoint = true;
  c.recipe = Recipe::from_name("fp8_hybrid");
  std::string message = message_of<InvalidConfig>([&] { LanguageTrainer trainer(c); });
  EXPECT_NE(message.find("recipe: is \"fp8_hybrid\", but the run in"), std::string::npos) << message;
  TrainConfig fp8 = with("fp8_hybrid", "fp8");
  steps = 0;
  LanguageTrainer(fp8, {.should_stop = [&] { return ++steps == 2; }}).run();
  fp8.resume_from_checkpoint = true;
  fp8.recipe.fp8_amax_history = 4;
  message = message_of<InvalidConfig>([&] { LanguageTrainer trainer(fp8); });
  EXPECT_NE(message.find("fp8_amax_history: is 4"), std::string::npos) << message;
}

TEST_F(RecipeTraining, FirstAndLastLayersHeadAndEmbeddingsStayAsTheyAre) {
  TrainConfig c = with("nvfp4", "run");
  c.architecture.num_hidden_layers = 4;
  c.recipe.skip_first_layers = 1;
  c.recipe.skip_last_layers = 2;
  LanguageTrainer trainer(c);
  std::vector<std::string> rounded;
  for (const auto& [name, weight] : named_weights(trainer.model()))
    if (weight->recipe != nullptr) rounded.push_back(name);
  EXPECT_EQ(rounded.size(), 7U);
  for (const std::string& name : rounded) EXPECT_TRUE(name.starts_with("model.layers.1.")) << name;
  c.recipe.skip_last_layers = 3;
  const std::string message = message_of<InvalidConfig>([&] { LanguageTrainer none(c); });
  EXPECT_NE(message.find("recipe: nvfp4 finds no linear layer"), std::string::npos) << message;
}

TEST_F(RecipeTraining, TheResultOfBitnetRunsInTheTernaryFormatWithTheSameLogits) {
  TrainConfig c = with("bitnet", "run");
  c.recipe.int8_block = 32;
  LanguageTrainer trainer(c);
  trainer.run();
  const DecoderInput input{.tokens = Tensor::from(std::vector<std::int64_t>{1, 5, 9, 2, 7, 3}, {1, 6})};
  const NoGrad no_grad;
  const Tensor trained = trainer.model().logits(trainer.model().hidden(input));
  const auto saved = load_language_model(c.output_dir + "/model", {.dtype = DType::f32, .device = kCpu});
  // The linear layers alone: `ingot quantize` rounds the head and the embeddings too, which is another error.
  for (const auto& [name, weight] : recipe_weights(*saved, c.recipe))
    weight->packed = quant::quantize_and_pack(weight->dense.value, "ternary", name);
  const Tensor ternary = saved->logits(saved->hidden(input));
  EXPECT_LT(ingot::testing::max_error(ternary, trained), 1e-5);
}

// Rounded operands take more, what is kept of them less.
TEST_F(RecipeTraining, IsReadByKeyAndCountedInThePlan) {
  Config file = Config::parse(
      "from_scratch: true\narchitecture: {hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4}\n"
      "datasets: [{path: a.txt}]\nrecipe: fp8-hybrid\nfp8_scaling: current\nskip_quant_last_layers: 1\n");
  TrainConfig c = read_train_config(file);
  EXPECT_EQ(c.recipe.kind, RecipeKind::fp8_hybrid);
  EXPECT_EQ(c.recipe.fp8_scaling, Fp8Scaling::current);
  EXPECT_EQ(c.recipe.skip_last_layers, 1);
  c.device = "cpu";
  LanguageConfig model = c.architecture;
  model.vocab_size = 300;
  c.sequence_len = 32;
  c.per_device_train_batch_size = 2;
  c.gradient_accumulation_steps = 2;
  const MemoryPlan plan = plan_memory(c, model);
  InitSource source(1);
  LanguageModel real(model, source);
  const auto recipe = put_recipe(real, c);
  const Tensor ids = Tensor::zeros({2, 32}, DType::i32);
  const DecoderInput input{.tokens = ids, .positions = ids, .doc_start = {}, .length = 32};
  backward(real.loss(input, ids));
  MemoryTracker& memory = backend(kCpu).memory();
  const std::size_t before = memory.allocated();
  memory.reset_peak();
  backward(real.loss(input, ids));
  EXPECT_EQ(plan.activations + plan.transients, memory.peak() - before);
}

TEST(RecipeRanks, HaveTheScaleThatTheLargestMagnitudeOfAllAsksFor) {
  std::vector<float> scales(2);
  test::ThreadRanks(2).run([&scales](dist::Communicator& communicator) {
    InitSource source(1);
    Linear layer(source, {.in = 8, .out = 4, .bias = false});
    RecipeState state(Recipe::from_name("fp8_hybrid"), named_weights(layer));
    const Tensor x = Tensor::zeros({2, 8});
    x.data<float>()[3] = communicator.is_first() ? 14.0F : -7.0F;
    static_cast<void>(layer(x));
    end_recipe_step(state, communicator);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    scales[rank] = state.state().at("input_scale").data<float>()[0];
  });
  EXPECT_EQ(scales, (std::vector<float>{32, 32}));
}

}  // namespace
}  // namespace ingot
