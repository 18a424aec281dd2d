// Fine-tuning by several ranks that share out state, gradients and weights (ZeRO 1, 2 and 3).
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/thread_ranks.h"
#include "tests/train/cuda/training_run.h"
#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/core/memory.h"
#include "ingot/train/language/language_task.h"
#include "ingot/train/language/memory_plan.h"

namespace ingot {
namespace {

constexpr std::int64_t kMicroBatches = 12, kSteps = 2;  // of a step, among all ranks

class RankTuning : public test::TrainingRun {
 protected:
  struct Outcome {
    std::string weights;  // the file that holds what was trained
    std::optional<double> evaluated, evaluated_averages;
    bool operator==(const Outcome&) const = default;
  };

  TrainConfig with_pairs(TrainConfig c, const std::string& rl) const {
    const bool verdicts = rl == "kto";
    std::ofstream rows(directory_.at(rl + ".jsonl"));
    for (int i = 0; i < 30; ++i) {
      rows << R"({"prompt": "Is )" << i << R"( even?", )";
      if (verdicts)
        rows << R"("completion": " yes", "label": )" << (i % 2 == 0 ? "true" : "false") << "}\n";
      else
        rows << R"("chosen": " yes it is", "rejected": " no"})"
             << "\n";
    }
    Config yaml = Config::parse("rl: " + rl + "\nmodel: x\ndatasets: [{path: x}]\n");
    const TrainConfig keys = read_train_config(yaml);
    c.objective = keys.objective;
    c.samples = keys.samples;
    c.datasets = keys.datasets;
    c.datasets[0].path = directory_.at(rl + ".jsonl");
    c.validation_split_ratio = 0.3;
    c.sequence_len = 32;
    c.per_device_train_batch_size = verdicts ? 2 : 1;
    return c;
  }

  // This rank's share of the run; the first one tells what came of it.
  static Outcome take_steps(const TrainConfig& config, dist::Communicator& ranks) {
    LanguageTask task(config, std::nullopt, {}, ranks);
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const StepWork work = task.gradients(step, {});
      task.optimizer().apply(step, work.grad_scale);
    }
    Outcome outcome;
    outcome.evaluated = task.evaluate({});
    if (task.optimizer().has_ema())
      task.optimizer().with_ema([&] { outcome.evaluated_averages = task.evaluate({}); });
    const std::string model = fmt::format("{}/model", config.output_dir);
    task.write_model(model);
    if (!ranks.is_first()) return {};
    outcome.weights =
        read_file(model + (config.adapter.enabled ? "/adapter_model.safetensors" : "/model.safetensors"));
    return outcome;
  }

  Outcome run(TrainConfig c, int ranks, int stage) const {
    c.output_dir += fmt::format("-{}-{}", ranks, stage);
    c.gradient_accumulation_steps = kMicroBatches / ranks;
    c.ordered_gradients = true;
    c.zero_stage = stage;
    c.threads = 1;
    c.bucket_cap_mb = 1;
    if (ranks == 1) {
      c.expert_parallel_size = 1;
      return take_steps(c, *dist::alone());
    }
    Outcome outcome;
    test::ThreadRanks(ranks).run([&](dist::Communicator& rank) {
      Outcome own = take_steps(c, rank);
      if (rank.is_first()) outcome = std::move(own);
    });
    return outcome;
  }

  using Ranks = std::vector<std::pair<int, int>>;  // how many, at which stage
  void expect_the_bits_of_one_process(const TrainConfig& c,
                                      const Ranks& all = {{2, 1}, {3, 2}, {4, 3}}) const {
    const Outcome alone = run(c, 1, 0);
    ASSERT_FALSE(alone.weights.empty());
    for (const auto& [ranks, stage] : all) {
      const Outcome shared = run(c, ranks, stage);
      EXPECT_TRUE(shared.weights == alone.weights) << ranks << " ranks, ZeRO " << stage;
      ASSERT_EQ(shared.evaluated.has_value(), alone.evaluated.has_value());
      if (alone.evaluated.has_value()) EXPECT_NEAR(*shared.evaluated, *alone.evaluated, 1e-6);
      ASSERT_EQ(shared.evaluated_averages.has_value(), alone.evaluated_averages.has_value());
      if (alone.evaluated_averages.has_value())
        EXPECT_NEAR(*shared.evaluated_averages, *alone.evaluated_averages, 1e-6);
    }
  }
};

TEST_F(RankTuning, AdaptersOnADenseBaseHaveTheBitsOfOneProcess) {
  TrainConfig c = tuning("cpu", "lora", DType::f32, "");
  c.adapter.lora.lora_dropout = 0.1;
  expect_the_bits_of_one_process(c, {{2, 1}, {4, 2}, {2, 3}, {3, 3}, {4, 3}});
}

TEST_F(RankTuning, AdaptersOnAQuantizedBaseHaveTheBitsOfOneProcess) {
  TrainConfig c = tuning("cpu", "qlora", DType::bf16, "nf4");
  c.recompute = Recompute::full;
  c.ema_decay = 0.9;
  expect_the_bits_of_one_process(c);
}

TEST_F(RankTuning, DecomposedAdaptersAndSavedModulesHaveTheBitsOfOneProcess) {
  TrainConfig c = tuning("cpu", "dora", DType::f32, "");
  c.adapter.lora.use_dora = true;
  c.adapter.lora.target_modules = {"q_proj", "down_proj"};
  c.adapter.lora.modules_to_save = {"up_proj", "lm_head"};
  expect_the_bits_of_one_process(c);
}

TEST_F(RankTuning, AdaptersOnAMixtureHaveTheBitsOfOneProcessAlsoWhereRanksShareExpertsOut) {
  TrainConfig base = config("cpu", "experts");
  base.architecture.model_type = "qwen3_moe";
  apply_family(base.architecture);
  base.architecture.hidden_size = 64;
  base.architecture.num_experts = 4;
  base.architecture.num_experts_per_tok = 2;
  base.architecture.moe_intermediate_size = 32;
  base.max_steps = 1;
  LanguageTrainer(base).run();
  TrainConfig c = base;
  c.from_scratch = false;
  c.architecture = {};
  c.model = base.output_dir + "/model";
  c.output_dir = directory_.at("tuned");
  c.adapter.enabled = true;
  c.adapter.lora = {.r = 4, .lora_alpha = 8, .target_modules = {"q_proj", "o_proj"}};
  c.expert_parallel_size = 2;
  expect_the_bits_of_one_process(c, {{2, 1}, {4, 3}});
  c.adapter.base_format = "q8_0";
  c.output_dir = directory_.at("tuned-q8_0");
  c.expert_parallel_size = 1;
  expect_the_bits_of_one_process(c);
  // Experts that ranks share out, in one group and in two.
  c.expert_parallel_size = 2;
  c.output_dir += "-shared";
  expect_the_bits_of_one_process(c, {{2, 1}, {4, 2}, {2, 3}, {4, 3}});
  c.expert_parallel_size = 4;
  expect_the_bits_of_one_process(c, {{4, 3}});
  expect_the_bits_of_one_process(with_pairs(c, "dpo"), {{4, 1}});
  // Adapters of the experts themselves.
  c.expert_parallel_size = 1;
  c.adapter.lora.target_modules = {"q_proj", "gate_proj", "down_proj"};
  c.output_dir += "-adapted";
  expect_the_bits_of_one_process(c, {{2, 1}, {2, 3}});
  for (const std::string format : {"q8_0", ""}) {
    c.adapter.base_format = format;
    c.expert_parallel_size = 4;
    c.output_dir += "-shared";
    expect_the_bits_of_one_process(c, {{4, 1}, {4, 3}});
  }
  c.expert_parallel_size = 2;
  c.recompute = Recompute::full;
  expect_the_bits_of_one_process(c, {{2, 2}});
  expect_the_bits_of_one_process(with_pairs(c, "dpo"), {{2, 1}});
}

TEST_F(RankTuning, AveragesOfAWholeModelHaveTheBitsOfOneProcess) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    TrainConfig c = config("cpu", fmt::format("ema-{}", name(dtype)));
    c.dtype = dtype;
    c.ema_decay = 0.9;
    expect_the_bits_of_one_process(c);
  }
}

TEST_F(RankTuning, RecipesHaveTheBitsOfOneProcess) {
  for (const char* recipe : {"fp8_hybrid", "nvfp4"}) {
    TrainConfig c = config("cpu", recipe);
    c.architecture.hidden_size = 32;
    c.architecture.intermediate_size = 64;
    c.architecture.num_key_value_heads = 2;
    c.recipe = Recipe::from_name(recipe);
    expect_the_bits_of_one_process(c, {{2, 3}});
  }
}

TEST_F(RankTuning, PreferencesBesideACopyOfTheBaseHaveTheBitsOfOneProcess) {
  TrainConfig c = tuning("cpu", "dpo", DType::f32, "");
  c.adapter = {};
  expect_the_bits_of_one_process(with_pairs(c, "dpo"));
}

TEST_F(RankTuning, PreferencesWithAdaptersHaveTheBitsOfOneProcess) {
  for (const char* rl : {"dpo", "kto"})
    expect_the_bits_of_one_process(
        with_pairs(tuning("cpu", fmt::format("{}-lora", rl), DType::f32, "nf4"), rl));
}

// Of ranks of a process, between two steps: two layers, and a part of the others.
TEST_F(RankTuning, StageThreeDividesTheBaseBelowAdapters) {
  const auto held = [&](int ranks, int stage) {
    TrainConfig c = tuning("cpu", fmt::format("held-{}-{}", ranks, stage), DType::bf16, "");
    c.dtype = DType::f32;  // so that it is no mapped file
    c.zero_stage = stage;
    c.threads = 1;
    std::size_t bytes = 0;
    const std::size_t before = backend(kCpu).memory().allocated(MemoryTag::parameter);
    test::ThreadRanks(ranks).run([&](dist::Communicator& rank) {
      LanguageTask task(c, std::nullopt, {}, rank);
      rank.barrier();
      if (rank.is_first()) bytes = backend(kCpu).memory().allocated(MemoryTag::parameter) - before;
      rank.barrier();
    });
    return static_cast<double>(bytes);
  };
  const TrainConfig c = tuning("cpu", "held", DType::bf16, "");
  const LanguageConfig model = LanguageTask(c, std::nullopt, {}).language_model().config;
  const auto layers = static_cast<double>(c.adapter.layer_bytes(model, DType::f32));
  EXPECT_NEAR(held(4, 2) - held(4, 3), 3 * layers, 0.02 * layers);
}

TEST_F(RankTuning, ThePlanDividesTheBaseBelowAdapters) {
  TrainConfig c = tuning("cpu", "plan", DType::f32, "nf4");
  const LanguageConfig model = LanguageTask(c, std::nullopt, {}).language_model().config;
  const MemoryPlan whole = plan_memory(c, model, 8);
  c.zero_stage = 3;
  const std::size_t layers = c.adapter.layer_bytes(model, DType::f32);
  // And a layer, in the part of a step that takes most.
  EXPECT_EQ(plan_memory(c, model, 8).parameters, whole.parameters - layers + layers / 8 + layers / 4);
  EXPECT_EQ(plan_memory(c, model, 8).all_weights, whole.parameters + whole.parameters / 8);
}

}  // namespace
}  // namespace ingot
