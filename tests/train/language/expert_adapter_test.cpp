// Adapters on the experts of a mixture, trained.
#include <fstream>
#include <memory>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/nn/expert_linear.h"
#include "ingot/train/language/language_trainer.h"
#include "ingot/train/language/memory_plan.h"

namespace ingot {
namespace {

class ExpertAdapters : public ::testing::Test {
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
    c.architecture.model_type = "qwen3_moe";
    c.architecture.hidden_size = c.architecture.intermediate_size = 64;
    c.architecture.moe_intermediate_size = 32;
    c.architecture.num_hidden_layers = 2;
    c.architecture.num_attention_heads = 4;
    c.architecture.num_key_value_heads = 2;
    c.architecture.num_experts = 4;
    c.architecture.num_experts_per_tok = 2;
    apply_family(c.architecture);
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
  // Adapters of the experts alone.
  static TrainConfig tuning(const std::string& output, const std::string& format = {}) {
    TrainConfig c = config(output + format, "other.txt");
    c.model = base_;
    c.adapter.enabled = true;
    c.adapter.base_format = format;
    c.adapter.lora = {.r = 4, .lora_alpha = 8, .target_modules = {"gate_proj", "up_proj", "down_proj"}};
    return c;
  }
  static std::string adapter_bytes(const TrainResult& result) {
    return read_file(result.model_directory + "/adapter_model.safetensors");
  }

  inline static std::unique_ptr<test::TemporaryDirectory> directory_;
  inline static std::string base_;
};

TEST_F(ExpertAdapters, LearnOnADenseAndAQuantizedBaseWhichStaysAsItIs) {
  for (const std::string format : {"", "nf4"}) {
    LanguageTrainer trainer(tuning("tuned", format));
    const double before = *trainer.evaluate();
    const auto bytes = [&] {
      std::vector<std::vector<std::uint8_t>> all;
      for (const auto& [name, experts] : named_experts(trainer.model()))
        for (const auto& packed : experts->packed) all.push_back(packed->data.to_vector<std::uint8_t>());
      return all;
    };
    const auto packed = bytes();
    EXPECT_EQ(packed.empty(), format.empty());
    EXPECT_LT(*trainer.run().validation_loss, before - 0.3) << format;
    EXPECT_EQ(bytes(), packed);
  }
}

TEST_F(ExpertAdapters, ResumeWithTheBitsOfARunThatNeverStopped) {
  for (const std::string format : {"", "nf4"}) {
    const auto config = [&](const std::string& output) {
      TrainConfig c = tuning(output, format);
      c.adapter.lora.lora_dropout = 0.1;
      c.recompute = Recompute::full;
      c.max_steps = 6;
      return c;
    };
    const std::string expected = adapter_bytes(LanguageTrainer(config("whole")).run());
    TrainConfig part = config("part");
    int asked = 0;
    LanguageTrainer(part, {.should_stop = [&] { return ++asked == 3; }}).run();
    part.resume_from_checkpoint = true;
    EXPECT_EQ(adapter_bytes(LanguageTrainer(part).run()), expected) << format;
  }
}

TEST_F(ExpertAdapters, ThePlanCountsThemAndTheQuantizedExperts) {
  const LanguageConfig model = load_language_model(base_)->config;
  const TrainConfig dense = tuning("a"), quantized = tuning("b", "nf4");
  const std::int64_t expected = 2 * 4 * 3 * 4 * (64 + 32);  // layers, rank, matrices, experts, in + out
  EXPECT_EQ(dense.adapter.parameter_count(model), expected);
  EXPECT_EQ(plan_memory(dense, model).all_gradients, static_cast<std::size_t>(expected) * 4);
  LanguageTrainer trainer(dense);
  EXPECT_EQ(count_parameters(trainer.model(), /*trainable_only=*/true), expected);
  // Of 72,000 weights more than half are experts'.
  EXPECT_LT(plan_memory(quantized, model).parameters, plan_memory(dense, model).parameters / 2);
}

TEST_F(ExpertAdapters, OffloadedQuantizedExpertsGiveTheSameBits) {
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    const auto adapter = [&](Offload offload) {
      TrainConfig c = tuning("offload", "nf4");
      c.output_dir += std::string(name(recompute)) + std::string(name(offload));
      c.max_steps = 3;
      c.recompute = recompute;
      c.offload_weights = offload;
      return adapter_bytes(LanguageTrainer(c).run());
    };
    EXPECT_EQ(adapter(Offload::disk), adapter(Offload::none));
  }
}

TEST_F(ExpertAdapters, MlpsInChunksLearnTheSame) {
  TrainConfig whole = tuning("all"), chunks = tuning("chunks");
  chunks.mlp_chunk = 48;
  const double expected = *LanguageTrainer(whole).run().validation_loss;
  EXPECT_NEAR(*LanguageTrainer(chunks).run().validation_loss, expected, 1e-3 * expected);
}

}  // namespace
}  // namespace ingot
