#include <fstream>
#include <functional>

#include "tests/support/temporary_directory.h"
#include "tests/train/cuda/training_run.h"
#include <nlohmann/json.hpp>

#include "ingot/base/checksums.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/train/checkpoint_directory.h"

// What a resumed run may change, and what not.
namespace ingot {
namespace {

using test::message_of;
using Change = std::function<void(TrainConfig&)>;

class ResumedRun : public test::TrainingRun {
 protected:
  // After two steps of five.
  TrainConfig begun(const std::string& output) const {
    TrainConfig c = config("cpu", output);
    c.report_to = {"jsonl"};
    int steps = 0;
    LanguageTrainer(c, {.should_stop = [&] { return ++steps == 2; }}).run();
    c.resume_from_checkpoint = true;
    return c;
  }
};

TEST_F(ResumedRun, IsRefusedWithOtherSettingsByKeyOldValueAndNew) {
  const TrainConfig c = begun("run");
  const auto error = [&](const Change& change) {
    TrainConfig other = c;
    change(other);
    return message_of<InvalidConfig>([&] { LanguageTrainer trainer(other); });
  };
  const auto expect = [&](const Change& change, const std::string& key, const std::string& now,
                          const std::string& before) {
    const std::string message = error(change);
    EXPECT_NE(message.find(key + ": is " + now + ", but the run in"), std::string::npos) << message;
    EXPECT_NE(message.find("was begun with " + before), std::string::npos) << message;
  };
  expect([](TrainConfig& t) { t.architecture.hidden_size = 32; }, "architecture.hidden_size", "32", "16");
  expect([](TrainConfig& t) { t.architecture.num_hidden_layers = 3; }, "architecture.num_hidden_layers", "3",
         "2");
  expect([](TrainConfig& t) { t.dtype = DType::bf16; }, "torch_dtype", "\"bf16\"", "\"f32\"");
  expect([](TrainConfig& t) { t.vocab_size = 270; }, "vocab_size", "270", "260");
  expect([](TrainConfig& t) { t.optimizer.name = "sgd"; }, "optimizer", "\"sgd\"", "\"adamw\"");
  expect([](TrainConfig& t) { t.ema_decay = 0.9; }, "ema_decay", "0.9", "0.0");
  expect([](TrainConfig& t) { t.seed = 7; }, "train_seed", "7", "1234");
  expect([](TrainConfig& t) { t.sequence_len = 8; }, "sequence_len", "8", "16");
  const std::string fewer = error([](TrainConfig& t) { t.max_steps = 1; });
  EXPECT_NE(fewer.find("max_steps: asks for 1 step, but"), std::string::npos) << fewer;
}

TEST_F(ResumedRun, IsRefusedWithOtherTextAndNotWithAnotherPath) {
  TrainConfig c = begun("run");
  std::filesystem::rename(directory_.at("text.txt"), directory_.at("moved.txt"));
  c.datasets[0].path = directory_.at("moved.txt");
  EXPECT_EQ(LanguageTrainer(c).steps_done(), 2);
  std::ofstream(directory_.at("other.txt"))
      << read_file(directory_.at("moved.txt")) << "And one more line.\n";
  c.datasets[0].path = directory_.at("other.txt");
  const std::string message = message_of<InvalidConfig>([&] { LanguageTrainer trainer(c); });
  EXPECT_NE(message.find("datasets: ["), std::string::npos) << message;
  EXPECT_NE(message.find("other.txt] do not hold the text that the run in"), std::string::npos) << message;
  EXPECT_NE(message.find("text.txt])"), std::string::npos) << message;
}

TEST_F(ResumedRun, MayChangeStepsRateAndWhatItTells) {
  TrainConfig c = begun("run");
  c.max_steps = 7;
  c.optimizer.learning_rate = 1e-3;
  c.optimizer.max_grad_norm = 0.5;
  c.schedule.type = "linear";
  c.eval_steps = c.save_steps = c.logging_steps = 2;
  c.per_device_train_batch_size = 1;
  c.recompute = Recompute::selective;
  c.report_to = {"jsonl", "html"};
  const TrainResult result = LanguageTrainer(c).run();
  EXPECT_EQ(result.steps, 7);
  EXPECT_TRUE(std::filesystem::exists(c.output_dir + "/report.html"));
}

// A checkpoint of before the settings were kept holds neither "config" nor "datasets".
TEST_F(ResumedRun, ACheckpointOfAnEarlierVersionGoesOn) {
  const TrainConfig c = begun("run");
  const std::string expected = [&] {
    TrainConfig whole = config("cpu", "whole");
    LanguageTrainer(whole).run();
    return read_file(whole.output_dir + "/model/model.safetensors");
  }();
  const std::string path = CheckpointDirectory(c.output_dir).path(2);
  auto state = parse_json<nlohmann::ordered_json>(read_file(path + "/trainer_state.json"), "the test");
  state.erase("config");
  state.erase("datasets");
  write_file_atomically(path + "/trainer_state.json", dump_json(state, 2));
  std::filesystem::remove(path + "/SHA256SUMS");
  write_checksums(path);
  LanguageTrainer(c).run();
  EXPECT_EQ(read_file(c.output_dir + "/model/model.safetensors"), expected);
}

TEST_F(ResumedRun, ValidationWithoutATokenToPredictIsAbsentAndNeverTheBest) {
  TrainConfig c = config("cpu", "run");
  c.validation_split_ratio = 5e-4;  // one token
  c.eval_steps = 1;
  c.report_to = {"jsonl"};
  ::testing::internal::CaptureStderr();
  LanguageTrainer trainer(c);
  const TrainResult result = trainer.run();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_FALSE(result.validation_loss.has_value());
  EXPECT_FALSE(result.best_validation_loss.has_value());
  EXPECT_TRUE(trainer.history().evaluations().empty());
  EXPECT_NE(said.find("no token to predict"), std::string::npos) << said;
  EXPECT_EQ(read_file(c.output_dir + "/metrics.jsonl").find("eval"), std::string::npos);
}

}  // namespace
}  // namespace ingot
