#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/file_memory.h"
#include "ingot/core/backend.h"
#include "ingot/train/language/language_task.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/train/offloaded_activations.h"

// Inputs of layers that are in files until the layer runs again.
namespace ingot {
namespace {

class OffloadActivations : public test::TrainingRun {
 protected:
  std::map<std::string, std::string> files_of(TrainConfig c, Recompute recompute, Offload to) {
    c.recompute = recompute;
    c.offload_activations = to;
    c.output_dir += std::string(name(recompute)) + std::string(name(to));
    LanguageTrainer(c).run();
    return tensor_files(CheckpointDirectory(c.output_dir).path(c.max_steps));
  }
};

TEST_F(OffloadActivations, OnDiskACpuTrainsAdaptersWithTheSameBits) {
  TrainConfig c = tuning("cpu", "out", DType::bf16, "nf4");
  c.max_steps = 1;
  EXPECT_TRUE(files_of(c, Recompute::full, Offload::disk) == files_of(c, Recompute::none, Offload::none));
}

TEST_F(OffloadActivations, OnDiskACpuTrainsAWholeModelWithTheSameBits) {
  TrainConfig c = config("cpu", "whole");
  c.architecture.num_hidden_layers = 3;
  c.gradient_accumulation_steps = 2;
  c.max_steps = 2;
  EXPECT_TRUE(files_of(c, Recompute::full, Offload::disk) == files_of(c, Recompute::none, Offload::none));
}

// Two graphs at once, as a pass over a pair may have them, and one that is never differentiated.
TEST_F(OffloadActivations, InputsOfSeveralPassesAreKeptApart) {
  OffloadedActivations store(kCpu, {.to = Offload::disk, .directory = directory_.at("inputs")});
  const auto values = [](float value) { return Tensor::from(std::vector<float>(5000, value), {50, 100}); };
  const auto first = store.put(values(1)), second = store.put(values(2));
  {
    const auto dropped = store.put(values(3));
    const auto longer = store.put(Tensor::from(std::vector<float>(9000, 4), {9000}));
    EXPECT_EQ(longer->get().to_vector<float>(), std::vector<float>(9000, 4));
  }
  const auto third = store.put(values(5));
  const Tensor back = second->get();
  EXPECT_TRUE(is_file_memory(back.view().data, back.nbytes()));
  EXPECT_EQ(back.shape(), Shape({50, 100}));
  EXPECT_EQ(back.to_vector<float>(), std::vector<float>(5000, 2));
  EXPECT_EQ(third->get().to_vector<float>(), std::vector<float>(5000, 5));
  EXPECT_EQ(first->get().to_vector<float>(), std::vector<float>(5000, 1));
}

TEST_F(OffloadActivations, ThePlanCountsTheLastInputAndWhatIsElsewhere) {
  TrainConfig c = tuning("cpu", "plan", DType::f32, "");
  c.recompute = Recompute::full;
  const LanguageConfig model = planned_architecture(c);
  const std::size_t input =
      static_cast<std::size_t>(c.per_device_train_batch_size * c.sequence_len * model.hidden_size) *
      sizeof(float);
  const MemoryPlan whole = plan_memory_of_gpu(c, model, std::size_t{80} << 30);
  c.offload_activations = Offload::cpu;
  const MemoryPlan plan = plan_memory_of_gpu(c, model, std::size_t{80} << 30);
  EXPECT_EQ(whole.kept - plan.kept, 3 * input);  // of four: the last is still being copied
  EXPECT_LT(plan.activations + plan.transients, whole.activations + whole.transients);
  EXPECT_EQ(plan.offloaded_activations, 4 * input);
  EXPECT_EQ(whole.offloaded_activations, 0U);
  EXPECT_EQ(plan_memory(c, model).kept, whole.kept) << "on a CPU they are in its memory anyway";
}

TEST_F(OffloadActivations, ACheckOfTheDiskNamesTheKeysAndWhatToDo) {
  TrainConfig c = config("cpu", "full");
  c.recompute = Recompute::full;
  c.offload_activations = c.optimizer.offload = Offload::disk;
  MemoryPlan plan;
  plan.offloaded = plan.offloaded_activations = std::size_t{1} << 60;
  try {
    check_memory(plan, c, std::size_t{1} << 62);
    FAIL() << "it fits";
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("offload_optimizer: disk, offload_activations: disk takes"), std::string::npos)
        << text;
    EXPECT_NE(text.find("to make it fit: another output_dir"), std::string::npos) << text;
  }
}

TEST(OffloadActivationsKeys, ReadWhatAxolotlAndUnslothWrite) {
  const auto read = [](const std::string& text) {
    Config config = Config::parse("model: x\nadapter: lora\ndatasets: [{path: a.txt}]\n" + text);
    const TrainConfig c = read_train_config(config);
    return std::pair(c.recompute, c.offload_activations);
  };
  EXPECT_EQ(read("gradient_checkpointing: offload\n"), std::pair(Recompute::full, Offload::cpu));
  EXPECT_EQ(read("gradient_checkpointing: unsloth\n"), std::pair(Recompute::full, Offload::cpu));
  EXPECT_EQ(read("gradient_checkpointing: offload_disk\n"), std::pair(Recompute::full, Offload::disk));
  EXPECT_EQ(read("gradient_checkpointing: true\nactivation_offloading: true\n"),
            std::pair(Recompute::full, Offload::cpu));
  EXPECT_EQ(read("activation_offloading: legacy\n"), std::pair(Recompute::full, Offload::cpu));
  EXPECT_EQ(read("offload_activations: nvme\n"), std::pair(Recompute::full, Offload::disk));
  EXPECT_EQ(read("activation_offloading: false\n"), std::pair(Recompute::none, Offload::none));
  EXPECT_EQ(read("recompute: true\n"), std::pair(Recompute::full, Offload::none));
  EXPECT_THROW(read("recompute: selective\noffload_activations: cpu\n"), InvalidConfig);
  EXPECT_THROW(read("offload_activations: gpu\n"), InvalidConfig);
}

}  // namespace
}  // namespace ingot
