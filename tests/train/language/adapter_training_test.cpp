#include "ingot/train/language/adapter_training.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_directory.h"
#include "tests/train/hook_reporter.h"
#include <gtest/gtest.h>

#include "ingot/autograd/engine.h"
#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/core/memory.h"
#include "ingot/models/adapter/use_adapters.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/linear_weight.h"
#include "ingot/nn/visit.h"
#include "ingot/quant/packed_matrix.h"
#include "ingot/train/language/language_trainer.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/weights/open.h"

namespace ingot {
namespace {

// A base model that was trained on one text, to be fine-tuned on another.
class AdapterTrainingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<test::TemporaryDirectory>();
    std::ofstream base(directory_->at("base.txt")), other(directory_->at("other.txt"));
    for (int i = 0; i < 200; ++i) {
      base << "The number " << i << " is followed by the number " << i + 1 << ".\n";
      other << "After the number " << i << " there comes " << i + 1 << ", they say.\n";
    }
    base.close();
    other.close();
    TrainConfig c = config("base", "base.txt");
    c.from_scratch = true;
    apply_family(c.architecture);
    c.architecture.hidden_size = c.architecture.intermediate_size = 64;
    c.architecture.num_hidden_layers = 2;
    c.architecture.num_attention_heads = 4;
    c.architecture.num_key_value_heads = 2;
    c.vocab_size = 280;
    base_ = LanguageTrainer(c).run().model_directory;
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static TrainConfig config(const std::string& output, const std::string& text) {
    TrainConfig c;
    c.datasets = {{.path = directory_->at(text)}};
    c.output_dir = directory_->at(output);
    c.sequence_len = 32;
    c.per_device_train_batch_size = 4;
    c.max_steps = 12;
    c.optimizer.learning_rate = 1e-2;
    c.eval_steps = c.save_steps = 0;
    c.report_to = {};
    return c;
  }

  // Each test has outputs of its own.
  static TrainConfig tuning(const std::string& output, const std::string& base_format = {}) {
    TrainConfig c = config(output, "other.txt");
    c.model = base_;
    c.adapter.enabled = true;
    c.adapter.base_format = base_format;
    c.adapter.lora = {.r = 4, .lora_alpha = 8, .target_modules = {"all-linear"}};
    return c;
  }

  static std::string adapter_bytes(const TrainResult& result) {
    return read_file(result.model_directory + "/adapter_model.safetensors");
  }

  inline static std::unique_ptr<test::TemporaryDirectory> directory_;
  inline static std::string base_;
};

TEST_F(AdapterTrainingTest, LearnsWithADenseAndAQuantizedBaseAndLeavesAnAdapterOfPeft) {
  for (const std::string format : {"", "nf4", "nvfp4", "fp8-128x128", "q8_0"}) {
    LanguageTrainer trainer(tuning("tuned-" + format, format));
    const double before = *trainer.evaluate();
    const TrainResult result = trainer.run();
    EXPECT_LT(*result.validation_loss, before - 0.5) << format;
    EXPECT_TRUE(std::filesystem::exists(result.model_directory + "/adapter_config.json"));
    EXPECT_TRUE(std::filesystem::exists(result.model_directory + "/tokenizer.json"));
    if (!format.empty()) continue;
    // The base with what was written gives the loss of the run.
    TrainConfig again = tuning("again");
    again.adapter.start_from = result.model_directory;
    EXPECT_NEAR(*LanguageTrainer(again).evaluate(), *result.validation_loss, 1e-6);
  }
}

// Forward passes and input gradients through the packed base are those of its values.
TEST_F(AdapterTrainingTest, TrainsOnAPackedBaseAsOnADenseOneOfItsValues) {
  for (const std::string format : {"nf4", "nvfp4", "fp8-128x128", "q8_0"}) {
    SCOPED_TRACE(format);
    TrainConfig packed = tuning("packed-" + format, format);
    packed.max_steps = 4;
    const auto model = load_base_model(packed.model, packed.adapter, DType::f32, kCpu);
    std::size_t rounded = 0;
    for (const auto& [name, weight] : named_weights(*model)) {
      if (!weight->is_quantized()) continue;
      ++rounded;
      weight->dense.value = quant::values(*weight->packed);
      weight->packed = nullptr;
    }
    EXPECT_GT(rounded, 10U);
    const std::string values = directory_->at("values-" + format);
    write_language_model(values, model->config, parameter_map(*model));
    TrainConfig dense = tuning("dense-" + format);
    dense.max_steps = packed.max_steps;
    dense.tokenizer = packed.model;
    dense.model = values;
    LanguageTrainer on_packed(packed), on_dense(dense);
    on_packed.run();
    on_dense.run();
    const auto &steps = on_packed.history().steps(), &expected = on_dense.history().steps();
    ASSERT_EQ(steps.size(), expected.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_NEAR(steps[i].loss, expected[i].loss, 1e-5);
      EXPECT_NEAR(steps[i].grad_norm, expected[i].grad_norm, 1e-4 * expected[i].grad_norm);
    }
  }
}

TEST_F(AdapterTrainingTest, DoraLearnsAndResumesWithTheSameBits) {
  const auto config = [](const std::string& output) {
    TrainConfig c = tuning(output, "nf4");
    c.adapter.lora.use_dora = true;
    c.adapter.lora.lora_dropout = 0.1;
    c.ema_decay = 0.5;
    return c;
  };
  LanguageTrainer trainer(config("dora"));
  const double before = *trainer.evaluate();
  const TrainResult whole = trainer.run();
  EXPECT_LT(*whole.validation_loss, before - 0.5);
  TrainConfig part = config("dora-part");
  int asked = 0;
  LanguageTrainer(part, {.should_stop = [&] { return ++asked == 5; }}).run();
  part.resume_from_checkpoint = true;
  EXPECT_EQ(adapter_bytes(LanguageTrainer(part).run()), adapter_bytes(whole));
  part.adapter.lora.use_dora = false;
  EXPECT_THROW(LanguageTrainer{part}, Error);
}

TEST_F(AdapterTrainingTest, AQuantizedBaseIsEvaluatedAndSampledInBf16Too) {
  TrainConfig c = tuning("halves", "nf4");
  c.dtype = DType::bf16;
  c.max_steps = 1;
  c.sample_prompts = {"After"};
  LanguageTrainer trainer(c);
  const double loss = *trainer.run().validation_loss;
  c.output_dir = directory_->at("floats");
  c.dtype = DType::f32;
  EXPECT_NEAR(loss, *LanguageTrainer(c).run().validation_loss, 0.1);
}

TEST_F(AdapterTrainingTest, OnlyTheAdapterTrains) {
  LanguageTrainer trainer(tuning("only"));
  const auto base = load_language_model(base_);
  trainer.run();
  const auto weights = named_weights(trainer.model()), before = named_weights(*base);
  for (std::size_t i = 0; i < weights.size(); ++i)
    EXPECT_EQ(weights[i].second->dense.value.to_vector<float>(),
              before[i].second->dense.value.to_vector<float>());
}

TEST_F(AdapterTrainingTest, ResumingGivesTheBitsOfARunThatNeverStopped) {
  for (const std::string format : {"", "nf4"}) {
    TrainConfig whole = tuning("whole" + format, format);
    whole.adapter.lora.lora_dropout = 0.1;
    whole.max_steps = 6;
    const std::string expected = adapter_bytes(LanguageTrainer(whole).run());
    TrainConfig part = tuning("part" + format, format);
    part.adapter.lora.lora_dropout = 0.1;
    part.max_steps = 6;
    part.save_steps = 2;
    int asked = 0;
    LanguageTrainer(part, {.should_stop = [&] { return ++asked == 3; }}).run();
    part.resume_from_checkpoint = true;
    LanguageTrainer resumed(part);
    EXPECT_EQ(resumed.steps_done(), 3);
    EXPECT_EQ(adapter_bytes(resumed.run()), expected) << format;
  }
}

TEST_F(AdapterTrainingTest, AnotherAdapterThanTheRunsIsRefusedByItsKey) {
  TrainConfig c = tuning("run");
  c.max_steps = 2;
  LanguageTrainer(c).run();
  c.resume_from_checkpoint = true;
  const auto problem = [](const TrainConfig& config) -> std::string {
    try {
      LanguageTrainer again(config);
    } catch (const InvalidConfig& error) {
      return error.what();
    }
    return "it went on";
  };
  TrainConfig wide = c;
  wide.adapter.lora.r = 8;
  EXPECT_NE(problem(wide).find("lora_r: is 8, but the run in"), std::string::npos) << problem(wide);
  EXPECT_NE(problem(wide).find("begun with 4"), std::string::npos);
  TrainConfig whole = c;
  whole.adapter.enabled = false;
  EXPECT_NE(problem(whole).find("adapter: is false, but the run in"), std::string::npos) << problem(whole);
}

TEST_F(AdapterTrainingTest, TheMemoryPlanCountsAdaptersAndTheBaseInItsFormat) {
  const TrainConfig dense = tuning("a"), quantized = tuning("b", "nf4");
  const LanguageConfig model = load_language_model(base_)->config;
  const MemoryPlan with_dense = plan_memory(dense, model), with_nf4 = plan_memory(quantized, model);
  // Rank 4: of q, k, v, o and gate, up, down of two layers.
  const std::int64_t sums = (64 + 64) * 2 + (64 + 32) * 2 + (64 + 64) * 3;
  EXPECT_EQ(dense.adapter.parameter_count(model), 2 * 4 * sums);
  EXPECT_EQ(with_dense.all_gradients, static_cast<std::size_t>(2 * 4 * sums) * 4);
  EXPECT_EQ(with_dense.optimizer, 2 * with_dense.all_gradients);
  EXPECT_LT(with_nf4.parameters, with_dense.parameters / 3);
}

// The first layer's input needs no gradient, and is all that is kept of it nevertheless.
TEST_F(AdapterTrainingTest, WhatRecomputationKeepsIsWhatThePlanSays) {
  for (const char* format : {"", "nf4"}) {
    TrainConfig c = tuning(std::string("kept") + format, format);
    c.recompute = Recompute::full;
    c.dtype = DType::f32;
    const auto model = load_adapted_model(base_, c.adapter, c.dtype, kCpu, c.seed, {});
    model->recompute = c.recompute;
    static_cast<void>(model->rope_tables(c.sequence_len));
    const Tensor tokens = Tensor::zeros({c.per_device_train_batch_size, c.sequence_len}, DType::i32);
    MemoryTracker& memory = backend(kCpu).memory();
    const DecoderInput input{.tokens = tokens, .positions = tokens};
    backward(model->loss(input, tokens));  // from now on the adapters' gradients are there
    const std::size_t before = memory.allocated();
    memory.reset_peak();
    const Tensor loss = model->loss(input, tokens);
    const std::size_t kept = memory.allocated() - before;
    const MemoryPlan plan = plan_memory(c, model->config);
    EXPECT_LE(kept, plan.activations + 4096) << format;
    backward(loss);
    EXPECT_LE(memory.peak() - before, plan.activations + plan.transients) << format;
  }
}

TrainConfig read(const std::string& yaml) {
  Config config = Config::parse("datasets: [{path: x}]\nbase_model: base\n" + yaml, "test.yaml");
  return read_train_config(config);
}

TEST(AdapterConfig, KeysOfAxolotlAndSurogateMeanTheSame) {
  const TrainConfig axolotl = read(
      "adapter: qlora\nload_in_4bit: true\nlora_r: 8\nlora_alpha: 16\nlora_dropout: 0.05\n"
      "lora_target_modules: [q_proj, v_proj]\npeft_use_rslora: true\nlora_modules_to_save: [lm_head]\n");
  EXPECT_TRUE(axolotl.adapter.enabled);
  EXPECT_EQ(axolotl.adapter.base_format, "nf4");
  EXPECT_EQ(axolotl.adapter.lora.r, 8);
  EXPECT_EQ(axolotl.adapter.lora.lora_alpha, 16);
  EXPECT_EQ(axolotl.adapter.lora.lora_dropout, 0.05);
  EXPECT_TRUE(axolotl.adapter.lora.use_rslora);
  EXPECT_FALSE(axolotl.adapter.lora.use_dora);
  EXPECT_TRUE(read("adapter: lora\npeft_use_dora: true\n").adapter.lora.use_dora);
  EXPECT_EQ(axolotl.adapter.lora.target_modules, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(axolotl.adapter.lora.modules_to_save, std::vector<std::string>{"lm_head"});
  const TrainConfig surogate = read("lora: true\nlora_rank: 4\n");
  EXPECT_TRUE(surogate.adapter.enabled);
  EXPECT_EQ(surogate.adapter.lora.r, 4);
  EXPECT_EQ(surogate.adapter.lora.target_modules, std::vector<std::string>{"all-linear"});
  EXPECT_EQ(surogate.adapter.base_format, "");
  EXPECT_EQ(read("adapter: qlora\nbase_format: q4_k\n").adapter.base_format, "q4_k");
  EXPECT_EQ(read("adapter: qlora\nbase_format: fp8-128x128\n").adapter.base_format, "fp8-128x128");
  EXPECT_FALSE(read("").adapter.enabled);
}

TEST(AdapterConfig, KeysOfBitsandbytesAndOfSurogatesFormatsMeanTheBasesFormat) {
  const TrainConfig kwargs = read(
      "adapter: qlora\nload_in_4bit: true\nbnb_config_kwargs:\n  bnb_4bit_quant_type: nf4\n"
      "  bnb_4bit_use_double_quant: true\n  bnb_4bit_compute_dtype: torch.bfloat16\n"
      "  llm_int8_has_fp16_weight: false\n");
  EXPECT_EQ(kwargs.adapter.base_format, "nf4");
  EXPECT_EQ(kwargs.dtype, DType::bf16);
  EXPECT_EQ(read("adapter: qlora\nbf16: true\nbnb_4bit_compute_dtype: bfloat16\n").dtype, DType::bf16);
  EXPECT_EQ(read("lora: true\nqlora_bnb: true\nqlora_bnb_block_size: 64\n").adapter.base_format, "nf4");
  EXPECT_EQ(read("lora: true\nqlora_fp8: true\n").adapter.base_format, "fp8-128x128");
  EXPECT_EQ(read("lora: true\nqlora_fp4: true\nqlora_four_over_six: true\n").adapter.base_format, "nvfp4");
  // Of a base that has no 4 bits bitsandbytes does not read it.
  EXPECT_EQ(read("bnb_4bit_compute_dtype: bfloat16\n").dtype, DType::f32);
}

TEST(AdapterConfig, WhatCannotBeNamesTheKey) {
  const auto refusal = [](const std::string& yaml) -> std::string {
    try {
      read(yaml);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_NE(refusal("adapter: lora\nlora_dropout: 1.5\n").find("lora_dropout"), std::string::npos);
  EXPECT_NE(refusal("load_in_4bit: true\n").find("adapter: qlora"), std::string::npos);
  const auto names = [&](const std::string& yaml, const std::string& key, const std::string& advice) {
    const std::string message = refusal("adapter: qlora\n" + yaml);
    EXPECT_NE(message.find(key), std::string::npos) << message;
    EXPECT_NE(message.find(advice), std::string::npos) << message;
  };
  names("bnb_4bit_quant_type: fp4\n", "bnb_4bit_quant_type", "nvfp4");
  names("bf16: true\nbnb_4bit_compute_dtype: float32\n", "bnb_4bit_compute_dtype", "torch_dtype: f32");
  names("qlora_fp8: true\nqlora_fp4: true\n", "qlora_fp4", "choose one");
  names("qlora_fp8: true\nbase_format: nf4\n", "qlora_fp8", "base_format: nf4");
  names("qlora_bnb: true\nload_in_8bit: true\n", "qlora_bnb", "load_in_8bit: true");
  names("bnb_4bit_compute_dtype: float16\n", "bnb_4bit_compute_dtype", "got float16");
  names("bnb_config_kwargs: [load_in_4bit]\n", "bnb_config_kwargs", "mapping");
  EXPECT_NE(refusal("base_format: nf4\n").find("base_format"), std::string::npos);
  names("qlora_bnb: true\nqlora_bnb_block_size: 128\n", "qlora_bnb_block_size", "must be 64");
  names("llm_int8_skip_modules: [lm_head]\n", "llm_int8_skip_modules", "leave it out");
  EXPECT_NE(refusal("adapter: qlora\nbase_format: q4k\n").find("q4_k"), std::string::npos);
  EXPECT_NE(refusal("adapter: dora\n").find("adapter"), std::string::npos);
  EXPECT_NE(refusal("adapter: lora\nlora_r: 0\n").find("lora_r"), std::string::npos);
}

}  // namespace
}  // namespace ingot
