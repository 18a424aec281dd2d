// Training with 8-bit moments: how it is asked for, what it needs, what checkpoints hold.
#include "tests/support/temporary_directory.h"
#include "tests/train/cuda/training_run.h"

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/nn/visit.h"
#include "ingot/optim/optimizer.h"
#include "ingot/train/checkpoint_directory.h"
#include "ingot/train/language/memory_plan.h"

namespace ingot {
namespace {

class EightBitTraining : public test::TrainingRun {
 protected:
  // Projections of 4096 elements and more, and a table of 260 x 64.
  TrainConfig eight_bit(const std::string& output) const {
    TrainConfig c = config("cpu", output);
    c.architecture.hidden_size = 64;
    c.architecture.intermediate_size = 128;
    c.architecture.num_key_value_heads = 2;
    c.optimizer.name = "adamw_8bit";
    return c;
  }
};

TEST_F(EightBitTraining, QuantizesMomentsOfProjectionsAndNotOfTheEmbedding) {
  const TrainConfig c = eight_bit("run");
  const std::vector<double> losses = losses_of(c);
  EXPECT_LT(losses.back(), losses.front());
  const auto state = CheckpointDirectory(c.output_dir).newest()->tensors("optimizer");
  EXPECT_EQ(state.at("model.layers.0.mlp.up_proj.weight.exp_avg").dtype(), DType::u8);
  EXPECT_EQ(state.at("model.layers.0.mlp.up_proj.weight.exp_avg_sq_scale").shape(), Shape({32}));
  EXPECT_EQ(state.at("model.layers.0.input_layernorm.weight.exp_avg").dtype(), DType::f32);
  EXPECT_EQ(state.at("model.embed_tokens.weight.exp_avg").dtype(), DType::f32);
}

TEST_F(EightBitTraining, ResumingGivesTheBitsOfARunThatNeverStopped) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::string suffix = dtype == DType::f32 ? "" : "half";
    TrainConfig whole = eight_bit("whole" + suffix), c = eight_bit("stopped" + suffix);
    whole.dtype = c.dtype = dtype;
    LanguageTrainer(whole).run();
    int steps = 0;
    LanguageTrainer(c, {.should_stop = [&] { return ++steps == 3; }}).run();
    c.resume_from_checkpoint = true;
    LanguageTrainer(c).run();
    EXPECT_EQ(tensor_files(CheckpointDirectory(c.output_dir).path(5)),
              tensor_files(CheckpointDirectory(whole.output_dir).path(5)));
  }
}

TEST_F(EightBitTraining, ARunOfAdamWDoesNotGoOnWithIt) {
  TrainConfig c = eight_bit("run");
  c.optimizer.name = "adamw";
  int steps = 0;
  LanguageTrainer(c, {.should_stop = [&] { return ++steps == 3; }}).run();
  c.optimizer.name = "adamw_8bit";
  c.resume_from_checkpoint = true;
  EXPECT_NE(test::message_of<InvalidConfig>([&] {
              LanguageTrainer again(c);
            }).find("optimizer: is \"adamw_8bit\", but the run in"),
            std::string::npos);
}

// The plan takes small parameters for quantized ones, which is the difference.
TEST_F(EightBitTraining, TheMemoryPlanHasTheBytesOfEveryOptimizersState) {
  for (const std::string name : {"adamw", "adamw_8bit", "sgd"}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      TrainConfig c = eight_bit(name + std::string(ingot::name(dtype)));
      c.optimizer.name = name;
      c.optimizer.momentum = 0.9;
      c.dtype = dtype;
      LanguageTrainer trainer(c);
      std::vector<Parameter*> all;
      for (const auto& [_, parameter] : named_parameters(trainer.model())) all.push_back(parameter);
      const DType moments = name == "adamw_8bit" ? DType::u8 : DType::f32;
      const std::size_t bytes = name == "sgd" ? Sgd(all, {.momentum = 0.9}).state_bytes()
                                              : AdamW(all, {.moments = moments}).state_bytes();
      const std::size_t planned = plan_memory(c, trainer.model().config).optimizer;
      EXPECT_LE(planned, bytes) << name;
      EXPECT_GT(static_cast<double>(planned), 0.95 * static_cast<double>(bytes)) << name;
    }
  }
}

TEST(TrainConfig, EightBitAdamWHasTheNamesThatOtherTrainersUse) {
  const auto parse = [](const std::string& line) {
    Config file = Config::parse("datasets: [{path: x}]\nmodel: some/dir\n" + line + "\n");
    return read_train_config(file).optimizer.name;
  };
  EXPECT_EQ(parse("optimizer: adamw_8bit"), "adamw_8bit");
  EXPECT_EQ(parse("optimizer: adamw_bnb_8bit"), "adamw_8bit");
  EXPECT_EQ(parse("optim: adamw_8bit"), "adamw_8bit");
  EXPECT_EQ(parse("optimizer: paged_adamw_8bit"), "adamw_8bit");
  EXPECT_NE(test::message_of<InvalidConfig>([&] { parse("optimizer: adamw_torch_4bit"); }).find("adamw_8bit"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot
