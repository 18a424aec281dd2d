#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/file_memory.h"
#include "ingot/base/scratch_memory.h"
#include "ingot/train/language/language_task.h"
#include "ingot/train/language/language_trainer.h"
#include "ingot/train/language/memory_plan.h"

// Frozen matrices of layers that are in files while their layer does not compute.
namespace ingot {
namespace {

class OffloadWeights : public test::TrainingRun {
 protected:
  struct Outcome {
    std::vector<double> losses;
    std::map<std::string, std::string> files;
    bool operator==(const Outcome&) const = default;
  };
  Outcome run(TrainConfig c, Offload to) {
    c.offload_weights = to;
    c.output_dir += std::string(name(to));
    LanguageTrainer trainer(c);
    trainer.run();
    return {losses(trainer), tensor_files(CheckpointDirectory(c.output_dir).path(c.max_steps))};
  }
};

TEST_F(OffloadWeights, OnDiskACpuTrainsAdaptersWithTheSameBits) {
  struct Case {
    const char* format;
    Recompute recompute;
    DType dtype;
  };
  for (const auto& [format, recompute, dtype] :
       {Case{"", Recompute::selective, DType::f32}, Case{"", Recompute::full, DType::bf16},
        Case{"nf4", Recompute::none, DType::bf16}, Case{"int4-g32", Recompute::full, DType::f32}}) {
    TrainConfig c = tuning("cpu", std::string("out") + format + std::string(name(dtype)), dtype, format);
    c.recompute = recompute;
    c.max_steps = 1;
    EXPECT_TRUE(run(c, Offload::disk) == run(c, Offload::none)) << format << " " << name(dtype);
  }
}

TEST_F(OffloadWeights, OnDiskACpuTrainsAWholeModelWithTheSameBits) {
  struct Case {
    const char* optimizer;
    Recompute recompute;
    DType dtype;
  };
  for (const auto& [optimizer, recompute, dtype] :
       {Case{"adamw", Recompute::none, DType::bf16}, Case{"muon", Recompute::full, DType::f32}}) {
    TrainConfig c = config("cpu", std::string("whole") + optimizer);
    c.dtype = dtype;
    c.optimizer.name = optimizer;
    c.recompute = recompute;
    c.gradient_accumulation_steps = 2;
    c.max_steps = 2;
    EXPECT_TRUE(run(c, Offload::disk) == run(c, Offload::none)) << optimizer;
  }
}

TEST_F(OffloadWeights, ExpertsTrainWithTheSameBits) {
  TrainConfig c = config("cpu", "experts");
  c.architecture.model_type = "qwen3_moe";
  apply_family(c.architecture);
  c.architecture.num_experts = 4;
  c.architecture.num_experts_per_tok = 2;
  c.architecture.moe_intermediate_size = 24;
  c.recompute = Recompute::full;
  c.max_steps = 2;
  EXPECT_TRUE(run(c, Offload::disk) == run(c, Offload::none));
}

TEST_F(OffloadWeights, AMambaModelTrainsWithTheSameBits) {
  TrainConfig c = config("cpu", "mamba");
  c.architecture.model_type = "mamba2";
  apply_family(c.architecture);
  c.architecture.mamba_n_heads = 4;
  c.architecture.mamba_d_head = 8;
  c.architecture.mamba_d_state = 8;
  c.recompute = Recompute::full;
  c.max_steps = 2;
  EXPECT_TRUE(run(c, Offload::disk) == run(c, Offload::none));
}

TEST_F(OffloadWeights, ModulesThatAreSavedWithAdaptersTrainWithTheSameBits) {
  TrainConfig c = tuning("cpu", "saved", DType::f32, "");
  c.adapter.lora.target_modules = {"q_proj", "down_proj"};
  c.adapter.lora.modules_to_save = {"up_proj", "lm_head"};
  c.max_steps = 2;
  const Outcome with = run(c, Offload::disk), without = run(c, Offload::none);
  EXPECT_TRUE(with == without);
  std::size_t saved = 0;
  for (const auto& [name, bytes] : with.files) saved += bytes.find("up_proj") != std::string::npos ? 1 : 0;
  EXPECT_GE(saved, 1U);
}

TEST_F(OffloadWeights, OnDiskTheMatricesOfLayersAreMemoryOfFiles) {
  // Its values are rounded from the base's bf16 to f32, and so lie in memory before they go to a file.
  TrainConfig c = tuning("cpu", "out", DType::bf16, "");
  c.dtype = DType::f32;
  c.offload_weights = Offload::disk;
  LanguageTask task(c, std::nullopt, {});
  int matrices = 0;
  for (const auto& layer : task.language_model().layers) {
    for (const Parameter* parameter : parameters(*layer)) {
      if (parameter->trainable() || parameter->shape().rank() < 2) continue;
      EXPECT_TRUE(is_file_memory(parameter->value.view().data, parameter->value.nbytes())) << parameter->name;
      ++matrices;
    }
  }
  EXPECT_EQ(matrices, 4 * 7);
}

TEST_F(OffloadWeights, GoesOnFromACheckpointOfARunWithout) {
  TrainConfig c = tuning("cpu", "resumed", DType::f32, "nf4");
  c.schedule.type = "constant";
  const Outcome expected = run(c, Offload::disk);
  const auto part = [&](Offload to, std::int64_t steps) {
    TrainConfig some = c;
    some.output_dir = directory_.at("part");
    some.max_steps = steps;
    some.offload_weights = to;
    some.resume_from_checkpoint = steps > 1;
    LanguageTrainer(some).run();
    return tensor_files(CheckpointDirectory(some.output_dir).path(steps));
  };
  part(Offload::none, 1);
  part(Offload::disk, 2);
  EXPECT_TRUE(part(Offload::none, 3) == expected.files);
}

TEST_F(OffloadWeights, ABaseThatIsDeletedMeanwhileIsThereToTheEnd) {
  TrainConfig c = tuning("cpu", "deleted", DType::f32, "");
  c.offload_weights = Offload::disk;
  LanguageTrainer trainer(c);
  std::filesystem::remove_all(c.model);
  EXPECT_NO_THROW(trainer.run());
}

TEST_F(OffloadWeights, ThePlanCountsTwoLayers) {
  TrainConfig c = tuning("cpu", "plan", DType::f32, "");
  const LanguageConfig model = LanguageTask(c, std::nullopt, {}).language_model().config;
  const MemoryPlan whole = plan_memory(c, model);
  c.offload_weights = Offload::disk;
  const MemoryPlan plan = plan_memory(c, model);
  EXPECT_EQ(plan.parameters + plan.offloaded_weights / 2, whole.parameters);
  EXPECT_EQ(plan.offloaded_weights, c.adapter.layer_bytes(model, DType::f32));
}

TEST_F(OffloadWeights, WhatItDoesNotDoIsRefusedByKey) {
  const auto refusal = [](TrainConfig c) {
    c.offload_weights = Offload::cpu;
    try {
      c.validate();
    } catch (const InvalidConfig& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  TrainConfig c = tuning("cpu", "refused", DType::f32, "");
  EXPECT_EQ(refusal(c), "");
  c.adapter.lora.use_dora = true;
  EXPECT_NE(refusal(c).find("lora_use_dora"), std::string::npos) << refusal(c);
  c.adapter = {};
  EXPECT_EQ(refusal(c), "");
  c.ema_decay = 0.9;
  EXPECT_NE(refusal(c).find("ema_decay"), std::string::npos) << refusal(c);
}

TEST(OffloadWeightsKeys, ReadWhatDeepSpeedAndAxolotlWrite) {
  const auto read = [](const std::string& text) {
    Config config = Config::parse("model: x\nadapter: lora\ndatasets: [{path: a.txt}]\n" + text);
    return read_train_config(config).offload_weights;
  };
  EXPECT_EQ(read("offload_weights: nvme\n"), Offload::disk);
  EXPECT_EQ(read("offload_weights: true\n"), Offload::cpu);
  EXPECT_EQ(read("offload_param: {device: cpu, pin_memory: true}\n"), Offload::cpu);
  EXPECT_EQ(read("layer_offloading: true\n"), Offload::cpu);
  EXPECT_EQ(read(""), Offload::none);
  EXPECT_THROW(read("offload_weights: gpu\n"), InvalidConfig);
}

TEST(FileMemory, TellsMappedFilesFromOtherMemory) {
  const test::TemporaryDirectory directory;
  const ScratchMemory scratch(directory.at("."), 10'000);
  const std::vector<char> heap(10'000);
  EXPECT_TRUE(is_file_memory(scratch.data(), scratch.bytes()));
  EXPECT_FALSE(is_file_memory(heap.data(), heap.size()));
  read_ahead(scratch.data(), scratch.bytes());
  let_go(scratch.data(), scratch.bytes());
  EXPECT_EQ(static_cast<const char*>(scratch.data())[9'999], 0);
}

}  // namespace
}  // namespace ingot
