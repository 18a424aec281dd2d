#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/fault.h"

// A disk that is full when a run wants to keep something there.
namespace ingot {
namespace {

class FullDisk : public test::TrainingRun {
 protected:
  TrainConfig run_of(std::int64_t steps, const std::string& output) const {
    TrainConfig c = config("cpu", output);
    c.schedule.type = "constant";
    c.sequence_len = 128;
    c.per_device_train_batch_size = 8;
    c.max_steps = steps;
    c.report_to = {};
    c.validation_split_ratio = 0;
    c.resume_from_checkpoint = steps > 1;
    return c;
  }
  std::map<std::string, std::string> files_of(const std::string& output, std::int64_t step) const {
    return tensor_files(CheckpointDirectory(directory_.at(output)).path(step));
  }
};

TEST_F(FullDisk, EndsARunWithOneErrorThatNamesTheDirectoryAndLosesNothing) {
  LanguageTrainer(run_of(1, "run")).run();
  LanguageTrainer(run_of(1, "expected")).run();
  LanguageTrainer(run_of(2, "expected")).run();
  const auto before = files_of("run", 1);
  const auto all = [](TrainConfig& c) {
    c.recompute = Recompute::full;
    c.offload_weights = c.offload_activations = c.optimizer.offload = Offload::disk;
  };
  struct Setting {
    const char* key;
    std::uint64_t free;  // bytes, which take the run's description but not what is kept
    std::function<void(TrainConfig&)> put;
  };
  const Setting settings[] = {
      {"offload_weights", 1, [](TrainConfig& c) { c.offload_weights = Offload::disk; }},
      {"offload_optimizer", 1, [](TrainConfig& c) { c.optimizer.offload = Offload::disk; }},
      {"offload_activations", 30'000, [&](TrainConfig& c) {
         all(c);
         c.offload_weights = c.optimizer.offload = Offload::none;
       }}};
  for (const auto& [key, free, put] : settings) {
    TrainConfig c = run_of(2, "run");
    put(c);
    const ScopedFault fault({.kind = Fault::Kind::no_space, .point = "write", .count = free});
    try {
      LanguageTrainer(c).run();
      FAIL() << key << ": nothing was written";
    } catch (const IoError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("cannot keep"), std::string::npos) << key << ": " << text;
      EXPECT_NE(text.find("No space left on device"), std::string::npos) << key << ": " << text;
      EXPECT_NE(text.find(c.output_dir), std::string::npos) << key << ": " << text;
    }
    EXPECT_TRUE(files_of("run", 1) == before) << key;
  }
  TrainConfig c = run_of(2, "run");
  all(c);
  LanguageTrainer(c).run();
  EXPECT_TRUE(files_of("run", 2) == files_of("expected", 2));
}

}  // namespace
}  // namespace ingot
