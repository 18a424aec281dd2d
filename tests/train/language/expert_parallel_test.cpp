// Mixtures whose experts ranks share out: expert_parallel_size.
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thread_ranks.h"
#include "tests/train/cuda/training_run.h"
#include <fmt/format.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/core/backend.h"
#include "ingot/ops/cast.h"
#include "ingot/train/language/language_task.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/weights/safetensors.h"

namespace ingot {
namespace {

using test::message_of;

constexpr std::int64_t kMicroBatches = 4, kSteps = 3;  // of a step, among all ranks

class ExpertParallelTraining : public test::TrainingRun {
 protected:
  struct Outcome {
    std::vector<double> losses, norms;
    std::map<std::string, std::vector<float>> weights;
    std::optional<double> evaluated;
    NamedValues values;  // of the last step
  };

  // A tiny model of the family, with as many experts as asked for.
  TrainConfig mixture(const std::string& family, std::int64_t experts = 4) const {
    const std::string file = test::source_dir() + "/tests/models/goldens/" + family + "/config.json";
    TrainConfig c = config("cpu", family);
    c.architecture = LanguageConfig::from_json(read_file(file), file);
    c.architecture.num_experts = experts;
    c.architecture.num_experts_per_tok = 2;
    c.architecture.n_group = c.architecture.topk_group = 1;
    c.architecture.vocab_size = 0;
    c.optimizer.name = "sgd";
    c.optimizer.learning_rate = 0.05;
    c.schedule.type = "constant";
    c.zero_stage = 1;
    c.threads = 1;
    return c;
  }

  // Adapters of all linear layers on such a model, which is trained for a step before.
  TrainConfig adapted(const std::string& family, const std::string& format) const {
    TrainConfig base = mixture(family);
    base.output_dir += "-base";
    base.max_steps = 1;
    base.zero_stage = 0;
    const std::string model = base.output_dir + "/model";
    if (!std::filesystem::exists(model)) LanguageTrainer(base).run();
    TrainConfig c = mixture(family);
    c.output_dir += "-adapted" + format;
    c.from_scratch = false;
    c.architecture = {};
    c.model = model;
    c.optimizer.learning_rate = 0.5;
    c.adapter.enabled = true;
    c.adapter.base_format = format;
    c.adapter.lora = {.r = 4, .lora_alpha = 8, .target_modules = {"all-linear"}};
    return c;
  }

  // Prompts, of which two of three are longer than a sequence and leave nothing to learn.
  TrainConfig with_few_targets() const {
    TrainConfig base = mixture("qwen3_moe", 8);
    base.zero_stage = 0;
    base.max_steps = 1;
    LanguageTrainer(base).run();
    std::ofstream rows(directory_.at("rows.jsonl"));
    for (int i = 0; i < 12; ++i)
      rows << R"({"instruction": ")" << std::string(i % 3 == 0 ? 5 : 400, 'a') << R"(", "output": "yes )" << i
           << "\"}\n";
    rows.close();
    Config yaml = Config::parse("model: x\ndatasets: [{path: " + directory_.at("rows.jsonl") +
                                ", type: alpaca}]\nexcess_length_strategy: truncate\nval_set_size: 0\n");
    const TrainConfig keys = read_train_config(yaml);
    TrainConfig c = base;
    c.from_scratch = false;
    c.architecture = {};
    c.zero_stage = 1;
    c.model = base.output_dir + "/model";
    c.output_dir = directory_.at("served");
    c.samples = keys.samples;
    c.datasets = keys.datasets;
    c.validation_split_ratio = 0;
    c.sequence_len = 300;
    c.sample_packing = false;
    c.per_device_train_batch_size = 1;
    return c;
  }

  static Outcome take_steps(const TrainConfig& config, dist::Communicator& ranks) {
    LanguageTask task(config, std::nullopt, {}, ranks);
    Outcome outcome;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const StepWork work = task.gradients(step, {});
      StepRecord record;
      task.read(work.metrics.to_vector<float>(), record);
      outcome.losses.push_back(record.loss);
      outcome.norms.push_back(record.grad_norm);
      outcome.values = record.values;
      task.optimizer().apply(step, work.grad_scale);
    }
    outcome.evaluated = task.evaluate({});
    task.write_model(config.output_dir);
    if (!ranks.is_first()) return {};
    const char* file = config.adapter.enabled ? "/adapter_model.safetensors" : "/model.safetensors";
    for (const auto& [name, tensor] : read_safetensors(config.output_dir + file))
      outcome.weights[name] = to(tensor, DType::f32).to_vector<float>();
    return outcome;
  }

  static Outcome run(const TrainConfig& c, int ranks) { return run(c, ranks, ranks); }
  // `group`: ranks that have all experts together.
  static Outcome run(TrainConfig c, int ranks, int group) {
    c.output_dir += fmt::format("-{}-{}", ranks, group);
    c.expert_parallel_size = group;
    c.gradient_accumulation_steps = kMicroBatches / ranks;
    if (ranks == 1) return take_steps(c, *dist::alone());
    Outcome outcome;
    test::ThreadRanks(ranks).run([&](dist::Communicator& rank) {
      Outcome own = take_steps(c, rank);
      if (rank.is_first()) outcome = std::move(own);
    });
    return outcome;
  }

  static void expect_near(const Outcome& actual, const Outcome& expected) {
    TrainingRun::expect_near(actual.losses, expected.losses, 1e-5);
    TrainingRun::expect_near(actual.norms, expected.norms, 1e-4);
    EXPECT_NEAR(actual.evaluated.value_or(0), expected.evaluated.value_or(0), 1e-4);
    ASSERT_EQ(actual.weights.size(), expected.weights.size());
    for (const auto& [name, values] : expected.weights) {
      const std::vector<float>& found = actual.weights.at(name);
      ASSERT_EQ(found.size(), values.size()) << name;
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(found[i], values[i], 1e-5) << name;
    }
  }
};

TEST_F(ExpertParallelTraining, EveryFamilyLearnsWhatOneProcessDoes) {
  for (const char* family : {"mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v3_moe", "gpt_oss_moe",
                             "nemotron_h_latent_moe", "granitemoeshared"}) {
    SCOPED_TRACE(family);
    const TrainConfig c = mixture(family);
    const Outcome alone = run(c, 1);
    EXPECT_LT(alone.losses.back(), alone.losses.front());
    expect_near(run(c, 2), alone);
    if (std::string(family) == "mixtral") expect_near(run(c, 4), alone);
  }
}

TEST_F(ExpertParallelTraining, ZeroStagesRecomputationAndAveragesChangeNothing) {
  TrainConfig c = mixture("qwen3_moe");
  c.ema_decay = 0.9;
  const Outcome alone = run(c, 1);
  for (const std::int64_t stage : {2, 3}) {
    c.zero_stage = stage;
    c.recompute = stage == 3 ? Recompute::full : Recompute::selective;
    expect_near(run(c, 4), alone);
  }
}

// Their ranks run for the others' tokens.
TEST_F(ExpertParallelTraining, ARankWithoutTargetsServesTheOthers) {
  const TrainConfig c = with_few_targets();
  expect_near(run(c, 4), run(c, 1));
}

TEST_F(ExpertParallelTraining, GroupsThatHaveAllExpertsEachLearnWhatOneProcessDoes) {
  for (const char* family : {"qwen3_moe", "gpt_oss_moe"}) {
    SCOPED_TRACE(family);
    TrainConfig c = mixture(family);
    c.ema_decay = 0.9;
    const Outcome alone = run(c, 1);
    for (const std::int64_t stage : {1, 3}) {
      c.zero_stage = stage;
      expect_near(run(c, 4, 2), alone);
    }
  }
}

// Modules of each expert, and parameters that stack all of them (gpt-oss); a base of which each rank has its
// experts in nf4.
TEST_F(ExpertParallelTraining, AdaptersOfExpertsLearnWhatTheyDoInOneProcess) {
  for (const auto& [family, format] :
       {std::pair{"qwen3_moe", ""}, {"qwen3_moe", "nf4"}, {"gpt_oss_moe", ""}}) {
    SCOPED_TRACE(std::string(family) + format);
    const TrainConfig c = adapted(family, format);
    const Outcome alone = run(c, 1);
    ASSERT_FALSE(alone.weights.empty());
    EXPECT_LT(alone.losses.back(), alone.losses.front());
    for (const int group : {4, 2}) expect_near(run(c, 4, group), alone);
    TrainConfig averaged = c;
    averaged.zero_stage = 3;
    averaged.ema_decay = 0.9;
    averaged.output_dir += "-averaged";
    expect_near(run(averaged, 2), run(averaged, 1));
  }
}

TEST_F(ExpertParallelTraining, RanksHaveTheAdaptersOfTheirOwnExpertsWhichThePlanCounts) {
  TrainConfig c = adapted("qwen3_moe", "");
  const auto held = [&](std::int64_t size) {
    c.expert_parallel_size = size;
    std::int64_t elements = 0;
    test::ThreadRanks(4).run([&](dist::Communicator& rank) {
      LanguageTask task(c, std::nullopt, {}, rank);
      if (rank.is_first()) elements = count_parameters(task.language_model(), /*trainable_only=*/true);
    });
    return elements;
  };
  const LanguageConfig model = LanguageTask(c, std::nullopt, {}).language_model().config;
  const std::int64_t of_experts = c.adapter.expert_parameter_count(model),
                     all = c.adapter.parameter_count(model);
  EXPECT_GT(of_experts, 0);
  EXPECT_EQ(held(1), all);
  EXPECT_EQ(held(2), all - of_experts / 2);
  EXPECT_EQ(held(4), all - of_experts * 3 / 4);
  const auto planned = [&](std::int64_t size) {
    c.expert_parallel_size = size;
    return plan_memory(c, model, 4);
  };
  const auto adapters = static_cast<std::size_t>(of_experts) * sizeof(float),
             base = static_cast<std::size_t>(model.expert_parameter_count()) * sizeof(float);
  EXPECT_EQ(planned(1).parameters - planned(4).parameters, (adapters + base) * 3 / 4);
  EXPECT_EQ(planned(1).all_gradients - planned(4).all_gradients, adapters * 3 / 4);
}

// Also where an adapter that the run goes on from has them.
TEST_F(ExpertParallelTraining, OrderedGradientsOfAdaptersOfExpertsAreForOneGroup) {
  TrainConfig c = adapted("qwen3_moe", "");
  TrainConfig first = c;
  first.expert_parallel_size = 1;
  first.output_dir = directory_.at("first");
  take_steps(first, *dist::alone());
  c.ordered_gradients = true;
  c.expert_parallel_size = 2;
  TrainConfig later = c;
  later.adapter.lora.target_modules = {"q_proj"};
  later.adapter.start_from = first.output_dir;
  test::ThreadRanks(4).run([&](dist::Communicator& rank) {
    for (const TrainConfig& refused : {c, later}) {
      const std::string message =
          message_of<InvalidConfig>([&] { LanguageTask(refused, std::nullopt, {}, rank); });
      EXPECT_NE(message.find("with ordered_gradients the 4 processes have to be one group"),
                std::string::npos)
          << message;
    }
  });
}

TEST_F(ExpertParallelTraining, RunsOfAsManyRanksHaveTheSameBits) {
  TrainConfig c = mixture("mixtral");
  c.optimizer.name = "adamw";
  const Outcome one = run(c, 4), two = run(c, 4);
  EXPECT_EQ(one.losses, two.losses);
  EXPECT_TRUE(one.weights == two.weights);
}

// An expert then reads the rows of one rank's micro-batch at a time.
TEST_F(ExpertParallelTraining, OrderedGradientsHaveTheBitsOfOneProcess) {
  for (const char* family : {"qwen3_moe", "nemotron_h_latent_moe", "gpt_oss_moe"}) {
    SCOPED_TRACE(family);
    TrainConfig c = mixture(family);
    c.optimizer.name = "adamw";
    c.optimizer.learning_rate = 1e-3;
    c.ordered_gradients = true;
    const Outcome alone = run(c, 1);
    for (const int ranks : {2, 4}) {
      c.zero_stage = ranks == 4 ? 3 : 1;
      c.recompute = ranks == 4 ? Recompute::full : Recompute::none;
      const Outcome shared = run(c, ranks);
      EXPECT_EQ(shared.losses, alone.losses) << ranks;
      EXPECT_TRUE(shared.weights == alone.weights) << ranks;
    }
  }
}

TEST_F(ExpertParallelTraining, OrderedGradientsOfAdaptersOfExpertsAreWithoutDropout) {
  TrainConfig c = adapted("qwen3_moe", "");
  c.ordered_gradients = true;
  c.expert_parallel_size = 2;
  c.adapter.lora.lora_dropout = 0.1;
  test::ThreadRanks(2).run([&](dist::Communicator& rank) {
    const std::string message = message_of<InvalidConfig>([&] { LanguageTask(c, std::nullopt, {}, rank); });
    EXPECT_NE(message.find("write lora_dropout: 0"), std::string::npos) << message;
  });
}

// Groups would add the gradients of their own ranks first.
TEST_F(ExpertParallelTraining, OrderedGradientsOfExpertsAreForOneGroup) {
  TrainConfig c = mixture("qwen3_moe");
  c.ordered_gradients = true;
  c.expert_parallel_size = 2;
  test::ThreadRanks(4).run([&](dist::Communicator& rank) {
    const std::string message = message_of<InvalidConfig>([&] { LanguageTask(c, std::nullopt, {}, rank); });
    EXPECT_NE(message.find("with ordered_gradients the 4 processes have to be one group"), std::string::npos)
        << message;
  });
}

TEST_F(ExpertParallelTraining, TheLoadOfEachRankIsAMetric) {
  const NamedValues values = run(mixture("qwen3_moe"), 2).values;
  ASSERT_GT(values.size(), 2U);
  const auto &first = *(values.end() - 2), &second = values.back();
  EXPECT_EQ(first.first, "expert_load/rank_0");
  EXPECT_EQ(second.first, "expert_load/rank_1");
  EXPECT_NEAR(first.second + second.second, 2, 1e-6);
  EXPECT_GT(first.second, 0);
  const NamedValues groups = run(mixture("qwen3_moe"), 4, 2).values;
  EXPECT_EQ(groups.back().first, "expert_load/rank_1");
  EXPECT_NEAR(groups.back().second, second.second, 0.05) << "of all groups, and not of the first";
}

TEST_F(ExpertParallelTraining, WhatIsToldOfRoutersIsOfAllRanks) {
  TrainConfig c = mixture("qwen3_moe");
  c.router_z_loss_coef = 0.1;
  const Outcome alone = run(c, 1), shared = run(c, 4), groups = run(c, 4, 2), copies = run(c, 4, 1);
  expect_near(shared, alone);
  for (const Outcome* ranks : {&shared, &groups, &copies})
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(ranks->values[i].first, alone.values[i].first);
      EXPECT_NEAR(ranks->values[i].second, alone.values[i].second, 1e-2) << alone.values[i].first;
    }
}

// At stage 3 a rank whose batch has no target runs another's.
TEST_F(ExpertParallelTraining, RoutersOfALentBatchCountOnce) {
  TrainConfig c = with_few_targets();
  const Outcome alone = run(c, 1);
  c.zero_stage = 3;
  const Outcome lent = run(c, 4, 1);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(lent.values[i].first, alone.values[i].first);
    EXPECT_NEAR(lent.values[i].second, alone.values[i].second, 1e-4) << alone.values[i].first;
  }
}

TEST_F(ExpertParallelTraining, RanksHaveTheirExpertsAlone) {
  const TrainConfig c = mixture("qwen3_moe");
  const auto held = [&](std::int64_t size) {
    TrainConfig some = c;
    some.expert_parallel_size = size;
    std::int64_t elements = 0;
    test::ThreadRanks(4).run([&](dist::Communicator& rank) {
      LanguageTask task(some, std::nullopt, {}, rank);
      if (rank.rank() != 3) return;
      for (const Parameter* parameter : parameters(task.language_model()))
        elements += parameter->value.numel();
    });
    return elements;
  };
  LanguageConfig model = c.architecture;
  model.vocab_size = c.vocab_size;
  EXPECT_EQ(held(1) - held(4), model.expert_parameter_count() * 3 / 4);
  TrainConfig planned = c;
  const MemoryPlan whole = plan_memory(planned, model, 4);
  planned.expert_parallel_size = 4;
  const auto experts = static_cast<std::size_t>(model.expert_parameter_count());
  EXPECT_EQ(whole.parameters - plan_memory(planned, model, 4).parameters, experts * 3);  // f32
  EXPECT_EQ(plan_memory(planned, model).parameters, whole.parameters);                   // as they are loaded
  planned.expert_parallel_size = 2;
  EXPECT_EQ(held(1) - held(2), model.expert_parameter_count() / 2);
  EXPECT_EQ(whole.parameters - plan_memory(planned, model, 4).parameters, experts * 2);
}

// Beside the sums of what all ranks have, a rank has the gradients of its own experts: those that stay, or
// those that the pass has made. Zeros that align the others' buckets are less than that.
TEST_F(ExpertParallelTraining, RanksHaveTheGradientsThatThePlanSays) {
  constexpr int kRanks = 2;
  for (const std::int64_t stage : {1, 2}) {
    for (const std::int64_t rounds : {1, 2}) {
      SCOPED_TRACE(fmt::format("stage {}, {} micro-batches", stage, rounds));
      TrainConfig c = mixture("qwen3_moe");
      c.expert_parallel_size = kRanks;
      c.zero_stage = stage;
      c.gradient_accumulation_steps = rounds;
      std::size_t held = 0;
      const MemoryTracker& memory = backend(kCpu).memory();
      const std::size_t before = memory.allocated(MemoryTag::gradient);
      test::ThreadRanks(kRanks).run([&](dist::Communicator& rank) {
        LanguageTask task(c, std::nullopt, {}, rank);
        const StepWork work = task.gradients(0, {});
        rank.barrier();
        if (rank.is_first()) held = memory.allocated(MemoryTag::gradient) - before;
        rank.barrier();
      });
      LanguageConfig model = c.architecture;
      model.vocab_size = c.vocab_size;
      const MemoryPlan plan = plan_memory(c, model, kRanks);
      const auto experts = static_cast<std::size_t>(model.expert_parameter_count()) * sizeof(float);
      const std::size_t made = stage == 2 && rounds == 1 ? experts / kRanks : 0;
      EXPECT_GE(held, kRanks * (plan.sums + made));
      EXPECT_LT(held, kRanks * (plan.sums + made) + experts);
      EXPECT_GE(plan.gradients, plan.sums + made);
      EXPECT_LE(plan.gradients, plan.sums + plan.all_gradients);
    }
  }
}

// They exchange rows of all their tokens at once.
TEST_F(ExpertParallelTraining, ThePlanHasNoChunksOfWhatGoesToSharedOutExperts) {
  TrainConfig c = mixture("qwen3_moe");
  LanguageConfig model = c.architecture;
  model.vocab_size = c.vocab_size;
  c.per_device_train_batch_size = 8;
  c.sequence_len = 1024;
  c.recompute = Recompute::full;
  const auto planned = [&](std::int64_t size, std::int64_t chunk) {
    c.expert_parallel_size = size;
    c.mlp_chunk = chunk;
    return plan_memory(c, model, 2);
  };
  const auto advises_chunks = [&] {
    return memory_advice(planned(c.expert_parallel_size, 0), c).find("mlp_chunk") != std::string::npos;
  };
  EXPECT_LT(planned(1, 64).needed(), planned(1, 0).needed());
  EXPECT_TRUE(advises_chunks());
  EXPECT_EQ(planned(2, 64).needed(), planned(2, 0).needed());
  EXPECT_FALSE(advises_chunks());
}

TEST_F(ExpertParallelTraining, WhatCannotBeSharedOutIsRefusedByKey) {
  const auto refusal = [&](TrainConfig c, std::int64_t size) {
    c.expert_parallel_size = size;
    return message_of<InvalidConfig>([&] { LanguageTask(c, std::nullopt, {}); });
  };
  const std::string alone = refusal(mixture("qwen3_moe"), 2);
  EXPECT_NE(alone.find("expert_parallel_size: is 2"), std::string::npos) << alone;
  EXPECT_NE(alone.find("mpirun -n 2"), std::string::npos) << alone;
  TrainConfig dense = config("cpu", "dense");
  dense.zero_stage = 1;
  EXPECT_NE(refusal(dense, 2).find("no experts"), std::string::npos);
  test::ThreadRanks(3).run([&](dist::Communicator& rank) {
    TrainConfig c = mixture("qwen3_moe");
    c.expert_parallel_size = 3;
    const std::string message = message_of<InvalidConfig>([&] { LanguageTask(c, std::nullopt, {}, rank); });
    EXPECT_NE(message.find("4 experts"), std::string::npos) << message;
  });
}

TEST(ExpertParallelKeys, HaveTheNamesOfOthersAndNameWhatTheyDoNotGoWith) {
  const auto read = [](const std::string& keys) {
    Config file = Config::parse("datasets: [{path: x}]\nmodel: some/dir\n" + keys);
    return read_train_config(file);
  };
  EXPECT_EQ(read("zero_stage: 1\nep_size: 4\n").expert_parallel_size, 4);
  EXPECT_EQ(read("zero_stage: 2\nexpert_model_parallel_size: 2\n").expert_parallel_size, 2);
  EXPECT_EQ(read("").expert_parallel_size, 1);
  for (const auto& [keys, named] : {std::pair{"", "zero_stage: 0"},
                                    {"zero_stage: 1\noptimizer: muon\n", "optimizer: muon"},
                                    {"zero_stage: 1\noptimizer: adamw_8bit\n", "optimizer: adamw_8bit"},
                                    {"zero_stage: 1\nsample_prompts: [a]\n", "sample_prompts"}}) {
    const std::string message = message_of<InvalidConfig>(
        [&, keys = keys] { read(std::string("expert_parallel_size: 2\n") + keys); });
    EXPECT_NE(message.find(std::string("expert_parallel_size: 2 is not supported with ") + named),
              std::string::npos)
        << message;
  }
}

}  // namespace
}  // namespace ingot
