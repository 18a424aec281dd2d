#include "ingot/train/language/planning/memory_limit.h"

#include <algorithm>

#include "tests/support/op_case.h"
#include "tests/train/cuda/training_run.h"

#include "ingot/base/config.h"
#include "ingot/base/error.h"

namespace ingot {
namespace {

using test::message_of;

class MemoryLimitRun : public test::TrainingRun {
 protected:
  // Activations that matter beside the weights.
  TrainConfig wide(const std::string& output) const {
    TrainConfig c = config("cpu", output);
    c.per_device_train_batch_size = 4;
    c.sequence_len = 64;
    c.max_steps = 2;
    return c;
  }
};

std::string limit_text(std::size_t bytes) { return std::to_string(bytes) + " B"; }

TEST_F(MemoryLimitRun, TakesTheFastestCombinationThatFitsWhateverTheLimit) {
  TrainConfig c = wide("any");
  for (const std::size_t gpu : {std::size_t{0}, std::size_t{80} << 30}) {
    const std::vector<MemoryChoice> all = memory_choices(c, planned_architecture(c), 1, {.gpu_bytes = gpu});
    EXPECT_GE(all.size(), 3U);
    for (std::size_t i = 1; i < all.size(); ++i) {
      EXPECT_LT(all[i].plan.needed(), all[i - 1].plan.needed()) << all[i].text();
      EXPECT_GE(all[i].slowdown, all[i - 1].slowdown) << all[i].text();
    }
    EXPECT_EQ(all.front().recompute, Recompute::none);
    EXPECT_EQ(all.front().offload, Offload::none);
    EXPECT_EQ(all.front().slowdown, 0);
    for (const MemoryChoice& at : all) {
      const std::size_t limit = at.plan.needed();
      const std::vector<MemoryChoice> choices =
          memory_choices(c, planned_architecture(c), limit, {.gpu_bytes = gpu});
      const MemoryChoice& best = best_choice(choices, c, limit);
      EXPECT_LE(best.plan.needed(), limit);
      EXPECT_LE(best.slowdown, at.slowdown);
      for (const MemoryChoice& other : choices)
        EXPECT_TRUE(other.plan.needed() > limit || other.slowdown >= best.slowdown) << other.text();
    }
  }
}

TEST_F(MemoryLimitRun, OffloadsWeightsOnlyWhereNothingFasterFits) {
  TrainConfig c = tuning("cpu", "weights", DType::f32, "");
  const LanguageConfig model = planned_architecture(c);
  for (const std::size_t gpu : {std::size_t{0}, std::size_t{80} << 30}) {
    const std::vector<MemoryChoice> all = memory_choices(c, model, 1, {.gpu_bytes = gpu});
    EXPECT_EQ(all.front().weights, Offload::none);
    const auto found = std::ranges::find_if(all, [](const auto& m) { return m.weights != Offload::none; });
    ASSERT_NE(found, all.end());
    EXPECT_EQ(found->weights, gpu > 0 ? Offload::cpu : Offload::disk);
    for (auto faster = all.begin(); faster != found; ++faster)
      EXPECT_GT(faster->plan.needed(), found->plan.needed()) << faster->text();
    const std::size_t limit = found->plan.needed();
    EXPECT_EQ(best_choice(memory_choices(c, model, limit, {.gpu_bytes = gpu}), c, limit).text(),
              found->text());
  }
}

TEST_F(MemoryLimitRun, DoesNotChooseToOffloadWeightsWhereThatIsRefused) {
  const auto offloads = [&](const TrainConfig& c) {
    const std::vector<MemoryChoice> all =
        memory_choices(c, planned_architecture(c), 1, {.gpu_bytes = std::size_t{80} << 30});
    return std::ranges::any_of(all, [](const auto& m) { return m.weights != Offload::none; });
  };
  TrainConfig c = tuning("cpu", "refused", DType::f32, "");
  EXPECT_TRUE(offloads(c));
  TrainConfig dora = c, samples = c, kept = c;
  dora.adapter.lora.use_dora = true;
  samples.sample_prompts = {"The"};
  kept.memory_limit.keeps_weights = true;
  EXPECT_FALSE(offloads(dora));
  EXPECT_FALSE(offloads(samples));
  EXPECT_FALSE(offloads(kept));
}

TEST_F(MemoryLimitRun, ARunThatOffloadsWeightsToFitHasTheBitsOfOneWithout) {
  const auto run = [&](const std::string& output, const std::string& limit) {
    TrainConfig c = tuning("cpu", output, DType::f32, "");
    c.max_steps = 1;
    c.memory_limit.limit = limit;
    LanguageTrainer trainer(c);
    trainer.run();
    return std::pair(tensor_files(CheckpointDirectory(c.output_dir).path(1)),
                     trainer.config().offload_weights);
  };
  const TrainConfig c = tuning("cpu", "plan", DType::f32, "");
  const std::size_t least = memory_choices(c, planned_architecture(c), 1).back().plan.needed();
  const auto [without, none] = run("whole", "");
  const auto [with, disk] = run("offloaded", limit_text(least));
  EXPECT_EQ(none, Offload::none);
  EXPECT_EQ(disk, Offload::disk);
  EXPECT_TRUE(with == without);
}

TEST_F(MemoryLimitRun, WhatFitsNowhereIsToldWithTheSmallestPlanAndWhatToChange) {
  TrainConfig c = wide("error");
  c.memory_limit.limit = "10 kB";
  const std::string message =
      message_of<OutOfMemory>([&] { fit_into_memory(c, planned_architecture(c), std::size_t{1} << 40); });
  for (const char* part :
       {"memory_limit", "9.77 KiB", "recompute: true, offload_optimizer: disk", "parameters", "activations",
        "to make it fit: a smaller per_device_train_batch_size"})
    EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}

TEST_F(MemoryLimitRun, KeepsWhatTheConfigurationGives) {
  const auto read = [&](const std::string& keys) {
    Config file = Config::parse(
        "architecture: {hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2}\n"
        "datasets: [{path: " +
        directory_.at("text.txt") +
        "}]\n"
        "device: cpu\nvocab_size: 260\nmemory_limit: auto\n" +
        keys);
    return read_train_config(file);
  };
  const auto fitted = [&](const std::string& keys, std::size_t available) {
    TrainConfig c = read(keys);
    fit_into_memory(c, planned_architecture(c), available);
    return std::pair(c.recompute, c.optimizer.offload);
  };
  TrainConfig c = read("");
  const std::vector<MemoryChoice> all = memory_choices(c, planned_architecture(c), 1);
  const std::size_t least =
      std::ranges::min(all, {}, [](const MemoryChoice& m) { return m.plan.needed(); }).plan.needed();
  EXPECT_EQ(fitted("", least), std::pair(Recompute::full, Offload::disk));
  EXPECT_EQ(fitted("", std::size_t{1} << 40), std::pair(Recompute::none, Offload::none));
  EXPECT_EQ(fitted("recompute: true", std::size_t{1} << 40), std::pair(Recompute::full, Offload::none));
  EXPECT_EQ(fitted("offload_optimizer: {device: nvme}", std::size_t{1} << 40),
            std::pair(Recompute::none, Offload::disk));
  EXPECT_THROW(fitted("recompute: false", least), OutOfMemory);
  EXPECT_THROW(fitted("offload_optimizer: false", least), OutOfMemory);
  EXPECT_THROW(read("memory_limit: much"), InvalidConfig);
  EXPECT_THROW(read("offload_optimizer: gpu"), InvalidConfig);
}

TEST_F(MemoryLimitRun, ARunWithinALimitHasTheBitsOfOneWithout) {
  const auto run = [&](const std::string& output, const std::string& limit) {
    TrainConfig c = wide(output);
    c.dtype = DType::bf16;
    c.memory_limit.limit = limit;
    LanguageTrainer trainer(c);
    trainer.run();
    return std::pair(tensor_files(CheckpointDirectory(c.output_dir).path(2)), trainer.config().recompute);
  };
  TrainConfig c = wide("plan");
  c.dtype = DType::bf16;
  std::size_t least = std::size_t{1} << 40;
  for (const MemoryChoice& choice : memory_choices(c, planned_architecture(c), 1))
    least = std::min(least, choice.plan.needed());
  const auto [without, none] = run("without", "");
  const auto [with, full] = run("with", limit_text(least));
  EXPECT_EQ(none, Recompute::none);
  EXPECT_EQ(full, Recompute::full);
  EXPECT_TRUE(with == without);
}

}  // namespace
}  // namespace ingot
