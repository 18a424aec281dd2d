#include <algorithm>

#include "tests/support/op_case.h"
#include "tests/support/thorough.h"
#include "tests/train/cuda/training_run.h"
#include "tests/train/hook_reporter.h"

#include "ingot/base/error.h"
#include "ingot/base/fault.h"
#include "ingot/core/backend.h"
#include "ingot/infer/engine.h"
#include "ingot/kernels/launch_profile.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/cast.h"
#include "ingot/optim/clip.h"
#include "ingot/train/language/checkpoint.h"

// Training on a CUDA device, emulated or not, against training on the CPU.
namespace ingot {
namespace {

using test::message_of;

class DeviceTraining : public test::TrainingRun {};

// Both sum in f32, in another order. A loss is a sum of at most 260 terms, each behind matmuls of up to 40:
// the bound of its relative error is some hundred roundings of 6e-8, and what is seen is far less.
constexpr double kOtherOrder = 1e-5;
// AdamW divides gradients by their own size, so that one that is all rounding error still moves its weight by
// up to the learning rate.
constexpr double kOtherOrderAdamW = 1e-3;
// bf16 rounds each activation to 8 bits; two orders of a sum can land on neighbours 2^-8 apart.
constexpr double kBf16 = 1e-2;

TEST_F(DeviceTraining, TakesTheStepsOfTheCpu) {
  for (const std::string optimizer : {"sgd", "adamw"}) {
    const auto run = [&](const std::string& device) {
      TrainConfig c = config(device, optimizer + device);
      c.optimizer.name = optimizer;
      c.gradient_accumulation_steps = 2;
      LanguageTrainer trainer(c);
      EXPECT_EQ(to_string(trainer.device()), device);
      trainer.run();
      return trainer.history().steps();
    };
    const std::vector<StepRecord> expected = run("cpu"), actual = run("cuda:0");
    const double tolerance = optimizer == "sgd" ? kOtherOrder : kOtherOrderAdamW;
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i].step, expected[i].step);
      EXPECT_EQ(actual[i].learning_rate, expected[i].learning_rate);
      EXPECT_NEAR(actual[i].loss, expected[i].loss, tolerance * expected[i].loss) << optimizer << i;
      EXPECT_NEAR(actual[i].grad_norm, expected[i].grad_norm, 10 * tolerance * expected[i].grad_norm)
          << optimizer << i;
    }
    EXPECT_LT(actual.back().loss, actual.front().loss);
  }
}

// Rounding may carry a difference of one sum to the next number of a format; what it changes is far below
// what the format itself does.
TEST_F(DeviceTraining, TakesTheStepsOfTheCpuWithRecipes) {
  for (const std::string recipe : {"fp8_hybrid", "nvfp4", "bitnet"}) {
    const auto run = [&](const std::string& device) {
      TrainConfig c = config(device, recipe + device);
      c.optimizer.name = "sgd";
      c.max_steps = 2;
      c.per_device_train_batch_size = c.eval_batches = 1;
      c.recipe = Recipe::from_name(recipe);
      return losses_of(c);
    };
    SCOPED_TRACE(recipe);
    expect_near(run("cuda:0"), run("cpu"), 5e-3);
  }
}

// A mixture of four experts, two for each token.
void use_experts(TrainConfig& c) {
  c.architecture.model_type = "mixtral";
  apply_family(c.architecture);
  c.architecture.num_experts = 4;
  c.architecture.num_experts_per_tok = 2;
  c.router_aux_loss_coef = 0.05;
}

TEST_F(DeviceTraining, TakesTheStepsOfTheCpuForEveryKindOfModel) {
  for (const std::string family : {"gpt2", "gemma2", "gemma3_text", "qwen3", "mixtral"}) {
    const auto adapted = [&](const std::string& device) {
      TrainConfig c = config(device, family + device);
      c.architecture.model_type = family;
      apply_family(c.architecture);
      if (family == "gpt2") c.architecture.num_key_value_heads = 2;
      if (family == "mixtral") use_experts(c);
      c.optimizer.name = "sgd";
      c.max_steps = 2;
      return c;
    };
    expect_near(losses_of(adapted("cuda")), losses_of(adapted("cpu")), kOtherOrder);
  }
}

// Gemma 4's global layers: no kernel takes heads of more than 256.
TEST_F(DeviceTraining, TakesTheStepsOfTheCpuWithHeadsThatAreComposed) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto run = [&](const std::string& device) {
      TrainConfig c = config(device, "wide" + std::string(name(dtype)) + device);
      c.dtype = dtype;
      c.architecture.model_type = "gemma4_text";
      apply_family(c.architecture);
      c.architecture.layer_types = {LayerKind::sliding, LayerKind::full};
      c.architecture.sliding_window = 8;
      c.architecture.head_dim = 8;
      c.architecture.global_head_dim = 264;
      c.architecture.rope_local_theta = 10000;
      c.optimizer.name = "sgd";
      c.cuda_graphs = true;  // said not to be
      c.max_steps = 2;
      c.per_device_train_batch_size = c.eval_batches = 1;
      return losses_of(c);
    };
    expect_near(run("cuda:0"), run("cpu"), dtype == DType::f32 ? kOtherOrder : kBf16);
  }
}

// Gemma 3n's streams, sparse gates, augmented residuals and inputs of layers.
TEST_F(DeviceTraining, TakesTheStepsOfTheCpuWithStreams) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto run = [&](const std::string& device) {
      TrainConfig c = config(device, "streams" + std::string(name(dtype)) + device);
      c.dtype = dtype;
      c.architecture.model_type = "gemma3n_text";
      apply_family(c.architecture);
      c.architecture.layer_types = {LayerKind::sliding, LayerKind::full};
      c.architecture.sliding_window = 8;
      c.architecture.activation_sparsity_pattern = {0.8, 0};
      c.optimizer.name = "sgd";
      c.max_steps = 2;
      c.per_device_train_batch_size = c.eval_batches = 1;
      return losses_of(c);
    };
    expect_near(run("cuda:0"), run("cpu"), dtype == DType::f32 ? kOtherOrder : kBf16);
  }
}

TEST_F(DeviceTraining, HalfPrecisionHasMasterWeights) {
  const auto half = [&](const std::string& device) {
    TrainConfig c = config(device, "half" + device);
    c.dtype = DType::bf16;
    return c;
  };
  expect_near(losses_of(half("cuda")), losses_of(half("cpu")), kBf16);
  const LanguageCheckpoint saved = load_checkpoint(*CheckpointDirectory(half("cuda").output_dir).newest());
  const Tensor& weight = saved.weights.at("model.layers.0.mlp.up_proj.weight");
  const Tensor& remainder = saved.optimizer.at("model.layers.0.mlp.up_proj.weight.master_remainder");
  EXPECT_EQ(weight.dtype(), DType::bf16);
  ASSERT_EQ(remainder.dtype(), DType::i16);
  const auto bits = remainder.to_vector<std::int16_t>();
  EXPECT_GT(std::ranges::count_if(bits, [](std::int16_t b) { return b != 0; }), remainder.numel() / 2);
}

TEST_F(DeviceTraining, TwiceTheSameBitsWithAndWithoutRecomputation) {
  for (const bool half : {false, true}) {  // libraries come in for fp16 and bf16 that do not for f32
    const auto run = [&](const std::string& output, Recompute recompute) {
      TrainConfig c = config("cuda", output + (half ? "half" : ""));
      c.dtype = half ? DType::bf16 : DType::f32;
      c.recompute = recompute;
      LanguageTrainer(c).run();
      return tensor_files(CheckpointDirectory(c.output_dir).path(5));
    };
    const auto first = run("first", Recompute::none);
    EXPECT_TRUE(run("second", Recompute::none) == first) << half;
    EXPECT_TRUE(run("selective", Recompute::selective) == first) << half;
    EXPECT_TRUE(run("recomputed", Recompute::full) == first) << half;
  }
}

TEST_F(DeviceTraining, EveryKindOfModelHasTheSameBitsWithSelectiveRecomputation) {
  const std::vector<std::string> families{"gemma2", "mixtral", "gpt2", "qwen3"};
  for (const std::string& family : test::first_or_all(families, 2)) {
    for (const bool half : test::first_or_all<char>({1, 0}, 1)) {
      const auto run = [&](Recompute recompute) {
        TrainConfig c = config("cuda", family + (half ? "half" : "") + std::string(name(recompute)));
        c.architecture.model_type = family;
        apply_family(c.architecture);
        if (family == "gpt2") c.architecture.num_key_value_heads = 2;
        if (family == "mixtral") use_experts(c);
        c.dtype = half ? DType::bf16 : DType::f32;
        c.gradient_accumulation_steps = 2;
        c.recompute = recompute;
        c.max_steps = 1;
        LanguageTrainer(c).run();
        return tensor_files(CheckpointDirectory(c.output_dir).path(1));
      };
      EXPECT_TRUE(run(Recompute::selective) == run(Recompute::none)) << family << half;
    }
  }
}

// Stops after three steps of five, goes on elsewhere.
TEST_F(DeviceTraining, ACheckpointOfOneDeviceResumesOnTheOther) {
  for (const bool half : {false, true}) {
    for (const auto& [from, to] : {std::pair{"cpu", "cuda"}, std::pair{"cuda", "cpu"}}) {
      const auto adapted = [&](const char* device, const std::string& output) {
        TrainConfig c = config(device, output + from + (half ? "half" : ""));
        c.dtype = half ? DType::bf16 : DType::f32;
        c.ema_decay = 0.9;
        return c;
      };
      TrainConfig c = adapted(from, "stopped");
      int steps = 0;
      EXPECT_EQ(LanguageTrainer(c, {.should_stop = [&] { return ++steps == 3; }}).run().steps, 3);
      c.device = to;
      c.resume_from_checkpoint = true;
      LanguageTrainer second(c);
      EXPECT_EQ(second.steps_done(), 3);
      // Nothing was rounded on the way.
      const LanguageCheckpoint saved = load_checkpoint(*CheckpointDirectory(c.output_dir).newest());
      for (const auto& [name, parameter] : named_parameters(second.model()))
        EXPECT_EQ(testing::max_error(ingot::to(parameter->value.detach(), kCpu), saved.weights.at(name)), 0.0)
            << name;
      second.run();
      expect_near(losses(second), losses_of(adapted(from, "whole")), half ? kBf16 : kOtherOrderAdamW);
    }
  }
}

// Stops after three steps of five, goes on elsewhere, with the same codes.
TEST_F(DeviceTraining, EightBitMomentsOfOneDeviceResumeOnTheOther) {
  for (const auto& [from, to] : {std::pair{"cpu", "cuda"}, std::pair{"cuda", "cpu"}}) {
    const auto adapted = [&](const std::string& output) {
      TrainConfig c = config(from, output + from);
      c.architecture.hidden_size = 64;  // projections have 4096 elements and more
      c.architecture.intermediate_size = 128;
      c.optimizer.name = "adamw_8bit";
      c.dtype = DType::bf16;
      return c;
    };
    TrainConfig c = adapted("stopped");
    int steps = 0;
    LanguageTrainer(c, {.should_stop = [&] { return ++steps == 3; }}).run();
    const auto before = CheckpointDirectory(c.output_dir).newest()->tensors("optimizer");
    EXPECT_EQ(before.at("model.layers.0.mlp.up_proj.weight.exp_avg").dtype(), DType::u8);
    c.device = to;
    c.resume_from_checkpoint = true;
    LanguageTrainer second(c);
    second.run();
    expect_near(losses(second), losses_of(adapted("whole")), kBf16);
  }
}

TEST_F(DeviceTraining, ResumingGivesTheBitsOfARunThatNeverStopped) {
  const auto adapted = [&](const std::string& output) {
    TrainConfig c = config("cuda", output);
    c.ema_decay = 0.9;
    return c;
  };
  LanguageTrainer(adapted("whole")).run();
  TrainConfig c = adapted("stopped");
  int steps = 0;
  LanguageTrainer(c, {.should_stop = [&] { return ++steps == 3; }}).run();
  c.resume_from_checkpoint = true;
  LanguageTrainer(c).run();
  EXPECT_EQ(tensor_files(CheckpointDirectory(c.output_dir).path(5)),
            tensor_files(CheckpointDirectory(adapted("whole").output_dir).path(5)));
}

TEST_F(DeviceTraining, EvaluatesWeightsAndAveragesAsTheCpu) {
  const auto run = [&](const std::string& device) {
    TrainConfig c = config(device, device);
    c.eval_steps = 2;
    c.ema_decay = 0.9;
    c.optimizer.name = "sgd";
    LanguageTrainer trainer(c);
    trainer.run();
    return trainer.history().evaluations();
  };
  const auto expected = run("cpu"), actual = run("cuda");
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(actual[i].step, expected[i].step);
    EXPECT_EQ(actual[i].ema, expected[i].ema);
    EXPECT_NEAR(actual[i].loss, expected[i].loss, kOtherOrder * expected[i].loss);
  }
}

TEST_F(DeviceTraining, CapturedStepsHaveTheBitsOfOthers) {
  const auto run = [&](bool graphs, bool experts, std::int64_t micro_batches, std::int64_t& forward_passes) {
    TrainConfig c = config(
        "cuda", (graphs ? "graphs" : "none") + std::to_string(micro_batches) + (experts ? "experts" : ""));
    if (experts) use_experts(c);
    c.cuda_graphs = graphs;
    c.gradient_accumulation_steps = micro_batches;
    c.eval_steps = 3;  // between steps, memory is used for something else
    c.ema_decay = 0.9;
    c.max_steps = 6;
    std::int64_t launches = 0;
    {
      LanguageTrainer trainer(c);
      const kernels::LaunchProfile profile;  // without the dry passes of the memory plan
      trainer.run();
      for (const auto& entry : profile.entries())
        if (entry.kernel == std::string("attention_backward")) launches += entry.launches;
    }
    forward_passes = launches / 2;  // two layers
    return tensor_files(CheckpointDirectory(c.output_dir).path(6));
  };
  const std::vector<std::pair<std::int64_t, bool>> steps{{2, true}, {1, false}, {2, false}, {1, true}};
  for (const auto& [micro_batches, experts] : test::first_or_all(steps, 1)) {
    std::int64_t eager = 0, captured = 0;
    EXPECT_EQ(run(true, experts, micro_batches, captured), run(false, experts, micro_batches, eager));
    EXPECT_EQ(eager, 6 * micro_batches);
    EXPECT_EQ(captured, 2 * micro_batches);  // the first step, and the one that was captured
  }
}

TEST_F(DeviceTraining, WhatIsMadeAgainIsCapturedWithTheStep) {
  const auto run = [&](bool graphs, Recompute recompute) {
    TrainConfig c = config("cuda", (graphs ? "graphs" : "eager") + std::string(name(recompute)));
    c.cuda_graphs = graphs;
    c.recompute = recompute;
    c.max_steps = 4;
    LanguageTrainer(c).run();
    return tensor_files(CheckpointDirectory(c.output_dir).path(4));
  };
  EXPECT_TRUE(run(true, Recompute::selective) == run(false, Recompute::none));
}

TEST_F(DeviceTraining, WhatCannotBeCapturedRunsAsItIs) {
  TrainConfig c = config("cuda", "by_length");
  c.architecture.rope_scaling.type = "dynamic";
  c.architecture.rope_scaling.factor = 2;
  c.cuda_graphs = true;
  c.max_steps = 3;
  EXPECT_EQ(LanguageTrainer(c).run().steps, 3);
}

// As those of a step are whose batches hold nothing to learn.
TEST_F(DeviceTraining, GradientsThatAreNotThereHaveANormOfZeroOnTheDeviceOfTheirParameters) {
  const Device device{DeviceType::cuda, 0};
  Parameter parameter("w", Tensor::zeros({3}, DType::f32, device), true, false);
  Parameter* const parameters[] = {&parameter};
  const ClippedNorm clipped = clip_by_global_norm(parameters, 1.0);
  EXPECT_EQ(clipped.norm.device(), device);
  EXPECT_EQ(clipped.norm.item(), 0);
  EXPECT_EQ(clipped.factor.item(), 1);
}

TEST_F(DeviceTraining, ALossThatIsNotFiniteNamesItsStepAndIsNotSaved) {
  TrainConfig c = config("cuda", "diverges");
  c.optimizer.name = "sgd";
  c.optimizer.learning_rate = 1e30;
  c.optimizer.max_grad_norm = 0;
  c.save_steps = 1;
  c.max_steps = 50;
  const std::string message = message_of<NonFinite>([&] { LanguageTrainer(c).run(); });
  EXPECT_NE(message.find("training step 2"), std::string::npos) << message;
  const CheckpointDirectory checkpoints(c.output_dir);
  const auto entries = checkpoints.list();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries.front().step, 1);
  EXPECT_NO_THROW(checkpoints.verify(entries.front().path));
}

// A thread of its own writes; what befalls it ends the run all the same.
TEST_F(DeviceTraining, AFullDiskWhileSavingEndsTheRunAndLosesNothingThatWasSaved) {
  TrainConfig c = config("cuda", "full");
  c.save_steps = 2;
  std::unique_ptr<ScopedFault> fault;
  const auto reporter = std::make_shared<test::HookReporter>();
  const LanguageTrainerHooks hooks{.reporters = {reporter}};
  reporter->on_save = [&](const std::string&) {
    if (fault == nullptr) fault = std::make_unique<ScopedFault>(parse_fault("no_space:write:20000"));
  };
  EXPECT_NE(message_of<IoError>([&] { LanguageTrainer(c, hooks).run(); }).find("No space left"),
            std::string::npos);
  const CheckpointDirectory checkpoints(c.output_dir);
  const auto entries = checkpoints.list();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries.front().step, 2);
  EXPECT_NO_THROW(checkpoints.verify(entries.front().path));
}

TEST_F(DeviceTraining, ADeviceThatIsNotThereIsRefused) {
  EXPECT_NE(
      message_of<DeviceNotAvailable>([&] { LanguageTrainer(config("cuda:77", "none")); }).find("cuda:77"),
      std::string::npos);
  EXPECT_NE(message_of<InvalidConfig>([&] { LanguageTrainer(config("tpu", "none")); }).find("tpu"),
            std::string::npos);
}

// As the samples of a run do.
TEST_F(DeviceTraining, TheModelWritesWhatItWouldOnTheCpu) {
  TrainConfig c = config("cuda", "writes");
  LanguageTrainer trainer(c);
  trainer.run();
  TrainConfig same = c;
  same.device = "cpu";
  same.resume_from_checkpoint = true;
  LanguageTrainer other(same);
  const infer::Request request{.prompt = trainer.tokenizer().encode("The number"), .max_tokens = 12};
  EXPECT_EQ(infer::generate(trainer.model(), request).tokens, infer::generate(other.model(), request).tokens);
}

}  // namespace
}  // namespace ingot
