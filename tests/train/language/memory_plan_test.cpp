#include "ingot/train/language/memory_plan.h"

#include <string>
#include <vector>

#include "tests/models/goldens.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/models/language/decoder.h"
#include "ingot/models/language/family.h"
#include "ingot/nn/param_source.h"
#include "ingot/optim/muon.h"
#include "ingot/train/language/gradient_step.h"

namespace ingot {
namespace {

constexpr std::int64_t kRows = 2, kRowTokens = 48;

LanguageConfig tiny(const std::string& family) {
  LanguageConfig c;
  c.model_type = family;
  c.vocab_size = 64;
  c.hidden_size = 64;
  c.intermediate_size = 160;
  c.num_hidden_layers = 3;
  c.num_attention_heads = 4;
  c.num_key_value_heads = family == "gpt2" ? 4 : 2;
  c.max_position_embeddings = 64;
  if (family == "mixtral" || family == "qwen3_moe") {
    c.num_experts = 4;
    c.num_experts_per_tok = 2;
    c.moe_intermediate_size = 96;
  }
  apply_family(c);
  c.validate();
  return c;
}

TrainConfig settings(Recompute recompute, DType dtype) {
  TrainConfig c;
  c.device = "cpu";
  c.per_device_train_batch_size = kRows;
  c.sequence_len = kRowTokens;
  c.recompute = recompute;
  c.dtype = dtype;
  return c;
}

DecoderInput tokens() {
  std::vector<std::int32_t> ids, positions;
  for (std::int64_t i = 0; i < kRows * kRowTokens; ++i) {
    ids.push_back(static_cast<std::int32_t>(i * 7 % 64));
    positions.push_back(static_cast<std::int32_t>(i % kRowTokens));
  }
  return {.tokens = Tensor::from(ids, {kRows, kRowTokens}),
          .positions = Tensor::from(positions, {kRows, kRowTokens})};
}

// At the moment when they are most together.
std::size_t of_pass(const MemoryPlan& plan) { return plan.gradients + plan.activations + plan.transients; }

// At the peak of a pass that adds to the gradients which are there, or makes them.
std::size_t bytes_of_pass(const LanguageModel& model, const DecoderInput& input) {
  MemoryTracker& memory = backend(kCpu).memory();
  const std::size_t before = memory.allocated();
  memory.reset_peak();
  backward(
      model.loss(input, input.tokens, loss_options(settings(model.recompute, DType::f32), model.config)));
  return memory.peak() - before;
}

class PlannedMemory : public ::testing::TestWithParam<std::string> {
 protected:
  // Calls check(model, plan, text) for each dtype and kind of recomputation.
  template <class F>
  void for_each_run(const F& check) const {
    const LanguageConfig config = tiny(GetParam());
    for (const DType dtype : {DType::f32, DType::bf16}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        InitSource source(1, dtype);
        LanguageModel model(config, source);
        model.recompute = recompute;
        static_cast<void>(model.rope_tables(kRowTokens));
        check(model, plan_memory(settings(recompute, dtype), config),
              std::string(name(recompute)) + " " + std::string(name(dtype)));
      }
    }
  }
};

// Not in the plan: the loss, its denominator, the offsets of the experts' rows. Nor the gradient of the head,
// which the forward pass makes, among the activations.
TEST_P(PlannedMemory, IsWhatTheForwardPassKeeps) {
  constexpr std::size_t kOfNoToken = 160;
  for_each_run([](LanguageModel& model, const MemoryPlan& plan, const std::string& text) {
    const DecoderInput input = tokens();
    const MemoryTracker& memory = backend(kCpu).memory();
    const auto held = [&] { return memory.allocated() - memory.allocated(MemoryTag::gradient); };
    const std::size_t before = held();
    const Tensor loss =
        model.loss(input, input.tokens, loss_options(settings(model.recompute, DType::f32), model.config));
    const std::size_t kept = held() - before;
    EXPECT_GE(kept, plan.kept) << text;
    EXPECT_LE(kept, plan.kept + kOfNoToken) << text;
  });
}

// Of a step with one pass: gradients are made while activations go.
TEST_P(PlannedMemory, HoldsTheWholePassAndIsNearIt) {
  for_each_run([](LanguageModel& model, const MemoryPlan& plan, const std::string& text) {
    const std::size_t used = bytes_of_pass(model, tokens());
    const double ratio = static_cast<double>(of_pass(plan)) / static_cast<double>(used);
    EXPECT_GE(ratio, 1) << text;
    EXPECT_LE(ratio, 1.05) << text;
    EXPECT_LE(plan.gradients, plan.all_gradients) << text;
  });
}

// A sixth of the tokens go through an MLP at a time.
TEST_P(PlannedMemory, HoldsAPassWhoseMlpsWorkInChunks) {
  constexpr std::int64_t kChunk = kRows * kRowTokens / 6;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    InitSource source(1, DType::f32);
    LanguageModel model(tiny(GetParam()), source);
    model.recompute = recompute;
    model.set_mlp_chunk(kChunk);
    static_cast<void>(model.rope_tables(kRowTokens));
    const auto used = static_cast<double>(bytes_of_pass(model, tokens()));
    TrainConfig config = settings(recompute, DType::f32);
    const MemoryPlan whole = plan_memory(config, model.config);
    config.mlp_chunk = kChunk;
    const MemoryPlan plan = plan_memory(config, model.config);
    const double ratio = static_cast<double>(of_pass(plan)) / used;
    EXPECT_GE(ratio, 1) << name(recompute);
    EXPECT_LE(ratio, 1.05) << name(recompute);
    EXPECT_LT(plan.needed(), whole.needed()) << name(recompute);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PlannedMemory,
                         ::testing::Values("gpt2", "llama", "qwen3", "gemma2", "gemma3_text", "mixtral",
                                           "qwen3_moe"),
                         [](const auto& info) { return info.param; });

DecoderInput zeros(const Shape& shape) {
  return {.tokens = Tensor::zeros(shape, DType::i32),
          .positions = Tensor::zeros(shape, DType::i32),
          .doc_start = {},
          .length = shape[1]};
}

// Each with something that the others have not: norms, places of norms, mixers, experts, positions.
TEST(MemoryPlan, IsToTheByteWhatAPassOfAFamilyTakes) {
  for (const char* name_of_golden :
       {"bloom", "cohere2", "deepseek_v3_moe", "falcon_h1", "gemma3", "gemma4", "gemma4_moe", "gpt_neox",
        "gpt_oss_moe", "granitehybrid_moe", "lfm2", "mamba2", "nemotron_h_moe", "opt_post_norm",
        "phi3_partial", "qwen3_5", "qwen3_next_moe"}) {
    const std::string path = test::golden_path(name_of_golden);
    const LanguageConfig config = LanguageConfig::from_json(read_file(path + "/config.json"), path);
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      TrainConfig c = settings(recompute, DType::f32);
      c.sequence_len = 12;
      InitSource source(1);
      LanguageModel model(config, source);
      model.recompute = recompute;
      const DecoderInput input = zeros({kRows, c.sequence_len});
      EXPECT_EQ(of_pass(plan_memory(c, config)), bytes_of_pass(model, input))
          << path << " " << name(recompute);
      c.gradient_accumulation_steps = 2;
      const MemoryPlan second = plan_memory(c, config);
      EXPECT_EQ(second.activations + second.transients, bytes_of_pass(model, input))
          << path << " " << name(recompute);
    }
  }
}

// Of a step with one pass it is the end, where gradients are most and activations few.
TEST(MemoryPlan, OfAGpuReservesATenthOfAPassAtItsMostWhereverThePeakIs) {
  const LanguageConfig c = tiny("llama");
  TrainConfig config = settings(Recompute::none, DType::f32);
  config.per_device_train_batch_size = 1;
  config.sequence_len = 8;
  const auto planned = [&] { return plan_memory_of_gpu(config, c, std::size_t{1} << 30); };
  const MemoryPlan once = planned();
  config.gradient_accumulation_steps = 2;
  const MemoryPlan twice = planned();
  EXPECT_EQ(twice.moving, twice.activations + twice.transients);
  EXPECT_LT(once.activations + once.transients, once.moving);
  EXPECT_EQ(once.moving, twice.moving);
  EXPECT_EQ(once.needed(), once.total() + once.moving / 10);
}

// Of few tokens the optimizer's step takes more than the pass.
TEST(MemoryPlan, HasRoomForTheLargestMatrixThatMuonSteps) {
  LanguageConfig c = tiny("llama");
  c.intermediate_size = 4096;
  TrainConfig config = settings(Recompute::none, DType::bf16);
  config.optimizer.name = "muon";
  config.gradient_accumulation_steps = 2;  // gradients are there before a pass
  config.per_device_train_batch_size = 1;
  config.sequence_len = 4;
  InitSource source(1, DType::bf16);
  LanguageModel model(c, source);
  Muon muon(parameters(ModuleRef(model)), {});
  MemoryTracker& memory = backend(kCpu).memory();
  std::size_t used = 0;
  for (int step = 0; step < 2; ++step) {  // the first makes the state
    const DecoderInput input = zeros({1, 4});
    backward(model.loss(input, input.tokens));
    const std::size_t before = memory.allocated();
    memory.reset_peak();
    muon.step();
    used = memory.peak() - before;
  }
  const MemoryPlan plan = plan_memory(config, c);
  const double ratio = static_cast<double>(plan.activations + plan.transients) / static_cast<double>(used);
  EXPECT_GE(ratio, 1);
  EXPECT_LE(ratio, 1.05);
}

TEST(MemoryPlan, RanksShareOutWhatTheZeroStageSays) {
  LanguageConfig c = tiny("llama");
  c.hidden_size = 1024;
  c.intermediate_size = 4096;
  TrainConfig config = settings(Recompute::none, DType::f32);
  config.bucket_cap_mb = 1;
  const auto count = static_cast<std::size_t>(c.parameter_count());
  const MemoryPlan alone = plan_memory(config, c), plain = plan_memory(config, c, 4);
  EXPECT_EQ(plain.optimizer, alone.optimizer);
  EXPECT_EQ(alone.all_gradients, 4 * count);
  EXPECT_EQ(alone.sums, 0U);  // the optimizer's step drops what the pass has made
  config.zero_stage = 1;
  EXPECT_EQ(plan_memory(config, c, 4).optimizer, alone.optimizer / 4);
  EXPECT_EQ(plan_memory(config, c, 4).gradients, plain.gradients);
  // Each matrix of the MLP fills a bucket that has less than 1 MiB before; one is received.
  constexpr std::size_t kMatrix = 4U * 4096 * 1024, kMore = 1U << 20;
  EXPECT_EQ(plain.sums, 4 * count);
  EXPECT_LE(plain.gradients, 4 * count + kMatrix + kMore);
  config.zero_stage = 2;
  const MemoryPlan divided = plan_memory(config, c, 4);
  EXPECT_EQ(divided.sums, count);
  // One is made and put together, one is sent.
  EXPECT_GE(divided.gradients, count + 2 * kMatrix);
  EXPECT_LE(divided.gradients, count + 4 * (kMatrix + kMore));
  // Where links are slow, two are beside the one that is put together.
  EXPECT_EQ(plain.waiting, 0U);
  EXPECT_GE(divided.waiting, 2 * kMatrix);
  EXPECT_LE(divided.waiting, 2 * (kMatrix + kMore));
  EXPECT_GE(divided.needed(), divided.total() + divided.waiting);
  EXPECT_EQ(plan_memory(config, c, 1).optimizer, alone.optimizer);
  EXPECT_EQ(plan_memory(config, c, 4).parameters, alone.parameters);
  config.zero_stage = 3;
  c.num_hidden_layers = 8;
  c.tie_word_embeddings = false;
  const auto outside = static_cast<std::size_t>(2 * c.vocab_size * c.hidden_size);
  const std::size_t layers = static_cast<std::size_t>(c.parameter_count()) - outside;
  EXPECT_EQ(plan_memory(config, c, 1).parameters, (outside + layers) * sizeof(float));
  const std::size_t gathered = plan_memory(config, c, 4).parameters - (outside + layers / 4) * sizeof(float);
  EXPECT_TRUE(gathered == layers / 8 * sizeof(float) || gathered == 2 * (layers / 8) * sizeof(float))
      << gathered << " bytes, of a layer or two";
}

// An embedding's moments stay in f32.
TEST(MemoryPlan, TablesOfLayersInputsHaveNoEightBitMoments) {
  const std::string path = test::golden_path("gemma4") + "/config.json";
  const LanguageConfig c = LanguageConfig::from_json(read_file(path), path);
  LanguageConfig more = c;
  more.vocab_size_per_layer_input += 1000;
  TrainConfig config = settings(Recompute::none, DType::f32);
  config.optimizer.name = "adamw_8bit";
  const auto added = static_cast<std::size_t>(1000 * c.num_hidden_layers * c.hidden_size_per_layer_input);
  EXPECT_EQ(plan_memory(config, more).optimizer - plan_memory(config, c).optimizer,
            2 * sizeof(float) * added);
}

// What makes all layers' inputs is one matrix, whose values of a quantized base are made at once.
TEST(MemoryPlan, HasRoomForTheProjectionOfLayersInputsWhereItIsTheLargestMatrix) {
  const std::string path = test::golden_path("gemma4") + "/config.json";
  LanguageConfig c = LanguageConfig::from_json(read_file(path), path);
  c.hidden_size_per_layer_input = 1024;
  TrainConfig config = settings(Recompute::none, DType::f32);
  const std::size_t bytes = static_cast<std::size_t>(c.hidden_size * 4 * 1024) * sizeof(float);
  const auto planned = [&] { return plan_memory_of_gpu(config, c, std::size_t{1} << 30); };
  config.adapter.enabled = true;
  config.adapter.lora.target_modules = {"q_proj"};
  const std::size_t dense = planned().transients;
  config.adapter.base_format = "nf4";
  EXPECT_EQ(planned().transients, dense + bytes);
}

// What stands in for them holds scores of all keys, several times.
TEST(MemoryPlan, CountsTheScoresOfHeadsThatNoKernelOfTheDeviceTakes) {
  LanguageConfig c = tiny("gemma4_text");
  c.layer_types = {LayerKind::sliding, LayerKind::sliding, LayerKind::full};
  c.sliding_window = 8;
  c.global_head_dim = 512;
  c.rope_local_theta = 10000;
  const TrainConfig config = settings(Recompute::none, DType::f32);
  const auto activations = [&] {
    const MemoryPlan plan = plan_memory_of_gpu(config, c, std::size_t{1} << 30);
    return plan.activations + plan.transients;
  };
  const std::size_t scores =
      static_cast<std::size_t>(kRows * c.num_attention_heads * kRowTokens * kRowTokens);
  const std::size_t wide = activations();
  c.global_head_dim = 256;
  EXPECT_GT(wide, activations() + 2 * scores * sizeof(float));
}

// Between steps, when answers or samples are written: all weights, the rank's part of them, its part of the
// optimizer's state and of the gradients.
TEST(MemoryPlan, StageThreeHasRoomForAllLayersWhileTextIsWritten) {
  LanguageConfig c = tiny("llama");
  c.num_hidden_layers = 64;
  TrainConfig config = settings(Recompute::full, DType::f32);
  config.zero_stage = 3;
  config.bucket_cap_mb = 1;
  const MemoryPlan plain = plan_memory(config, c, 4);
  const auto weights = static_cast<std::size_t>(c.parameter_count()) * sizeof(float);
  EXPECT_EQ(plain.all_weights, weights + weights / 4);
  config.sample_prompts = {"a"};
  const MemoryPlan sampling = plan_memory(config, c, 4);
  EXPECT_EQ(sampling.all_weights, weights + weights / 4 + plain.sums + plain.optimizer);
  EXPECT_GE(sampling.needed(), sampling.all_weights);
  config.sample_prompts = {};
  config.objective.kind = ObjectiveKind::grpo;
  const MemoryPlan grpo = plan_memory(config, c, 4);
  EXPECT_EQ(grpo.all_weights, weights + weights / 4 + plain.sums + plain.optimizer + grpo.reference);
}

// The shape of Qwen3-8B. Per token and layer there are 68608 numbers: 2·4096 before the norms and as many
// behind them, 2·5120 of attention (q and its result, k and v), 5120 of q and k before their norms, 3·12288
// of the MLP. Left out are what the norms give, q and k behind RoPE, and silu(gate)·up.
TEST(MemoryPlan, SelectiveRecomputationLeavesOutWhatNormsAndActivationsGive) {
  LanguageConfig c = tiny("qwen3");
  c.vocab_size = 151936;
  c.hidden_size = 4096;
  c.intermediate_size = 12288;
  c.num_hidden_layers = 36;
  c.num_attention_heads = 32;
  c.num_key_value_heads = 8;
  c.head_dim = 128;
  const auto planned = [&](Recompute recompute) {
    return plan_memory(settings(recompute, DType::bf16), c).kept;
  };
  EXPECT_EQ(planned(Recompute::none) - planned(Recompute::selective),
            std::size_t{kRows * kRowTokens * 36 * 2} * (2 * 4096 + 5120 + 12288));
}

}  // namespace
}  // namespace ingot
