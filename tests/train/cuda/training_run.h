#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/files.h"
#include "ingot/train/language/language_trainer.h"

namespace ingot::test {

/// Runs of a tiny model on either device, each in a directory of its own.
class TrainingRun : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream text(directory_.at("text.txt"));
    for (int i = 0; i < 60; ++i)
      text << "The number " << i << " is followed by the number " << i + 1 << ".\n";
  }

  TrainConfig config(const std::string& device, const std::string& output) const {
    TrainConfig c;
    c.from_scratch = true;
    apply_family(c.architecture);
    c.architecture.hidden_size = 16;
    c.architecture.intermediate_size = 40;
    c.architecture.num_hidden_layers = 2;
    c.architecture.num_attention_heads = 2;
    c.architecture.num_key_value_heads = 1;
    c.vocab_size = 260;
    c.datasets = {{.path = directory_.at("text.txt")}};
    c.cache_dir = directory_.at("cache");
    c.output_dir = directory_.at(output);
    c.sequence_len = 16;
    c.per_device_train_batch_size = 2;
    c.max_steps = 5;
    c.optimizer.learning_rate = 1e-2;
    c.eval_steps = 0;
    c.eval_batches = 2;
    c.save_steps = 0;
    c.device = device;
    return c;
  }

  /// A base of four layers, to be adapted on a device: in `dtype`, rounded to `format` unless that is empty.
  TrainConfig tuning(const std::string& device, const std::string& output, DType dtype,
                     const std::string& format) const {
    const std::string base = directory_.at(std::string("base-") + std::string(name(dtype)));
    TrainConfig c = config("cpu", base);
    c.dtype = dtype;
    c.architecture.hidden_size = c.architecture.intermediate_size = 64;
    c.architecture.num_hidden_layers = 4;
    c.output_dir = base;
    c.max_steps = 1;
    if (!std::filesystem::exists(base + "/model")) LanguageTrainer(c).run();
    c.from_scratch = false;
    c.architecture = {};
    c.model = base + "/model";
    c.device = device;
    c.output_dir = directory_.at(output);
    c.adapter.enabled = true;
    c.adapter.base_format = format;
    c.adapter.lora = {.r = 4, .lora_alpha = 8, .target_modules = {"all-linear"}};
    c.max_steps = 3;
    return c;
  }

  static std::vector<double> losses(const LanguageTrainer& trainer) {
    std::vector<double> values;
    for (const StepRecord& r : trainer.history().steps()) values.push_back(r.loss);
    return values;
  }

  /// The losses of a run from its beginning to its end.
  static std::vector<double> losses_of(const TrainConfig& config) {
    LanguageTrainer trainer(config);
    trainer.run();
    return losses(trainer);
  }

  static void expect_near(const std::vector<double>& actual, const std::vector<double>& expected,
                          double tolerance) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], tolerance * expected[i]) << "step " << i + 1;
  }

  /// The files of a directory that hold tensors.
  static std::map<std::string, std::string> tensor_files(const std::string& directory) {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      if (entry.path().extension() == ".safetensors")
        files[entry.path().filename().string()] = read_file(entry.path().string());
    }
    return files;
  }

  TemporaryDirectory directory_;
};

}  // namespace ingot::test
