// rl: grpo through the whole trainer, its answers written by the engine.
#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "tests/support/thread_ranks.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/train/language/data_preview.h"
#include "ingot/train/language/language_task.h"
#include "ingot/train/language/language_trainer.h"

namespace ingot {
namespace {

using test::message_of;

class GrpoTrainingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<test::TemporaryDirectory>();
    std::ofstream text(directory_->at("text.txt")), prompts(directory_->at("prompts.jsonl"));
    for (int i = 0; i < 40; ++i) {
      text << "Ask " << i << ": yes or no.\n";
      prompts << R"({"prompt": "Ask )" << i << R"(:", "answer": ")" << i << "\"}\n";
    }
    text.close();
    TrainConfig c;
    c.from_scratch = true;
    apply_family(c.architecture);
    c.architecture.hidden_size = c.architecture.intermediate_size = 32;
    c.architecture.num_hidden_layers = 1;
    c.architecture.num_attention_heads = c.architecture.num_key_value_heads = 2;
    c.vocab_size = 270;
    c.datasets = {{.path = directory_->at("text.txt")}};
    c.output_dir = directory_->at("base");
    c.sequence_len = 32;
    c.max_steps = 1;
    c.report_to = {};
    base_ = LanguageTrainer(c).run().model_directory;
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static TrainConfig config(const std::string& output, const std::string& rewards,
                            const std::vector<std::string>& changes = {}) {
    Config yaml =
        Config::parse("base_model: " + base_ +
                      "\nrl: grpo\nadapter: lora\nlora_r: 4\noutput_dir: " + directory_->at(output) +
                      "\ndatasets:\n  - path: " + directory_->at("prompts.jsonl") + "\nrewards:\n  - " +
                      rewards + "\ntrl: {num_generations: 4, max_completion_length: 6}\n" +
                      "sequence_len: 32\nmicro_batch_size: 8\nmax_steps: 4\nlearning_rate: 0.01\n"
                      "val_set_size: 0\neval_steps: 0\nsave_steps: 0\nreport_to: []\n");
    for (const std::string& change : changes) yaml.set(change);
    return read_train_config(yaml);
  }
  static double first_metric(const StepRecord& record) { return record.values.front().second; }
  // Asks whether to stop after each step and each token; says yes at time `ask` with so many steps done.
  static TrainResult stop(const TrainConfig& config, std::int64_t steps, int ask = 1) {
    const LanguageTrainer* running = nullptr;
    int asked = 0;
    LanguageTrainer trainer(
        config, {.should_stop = [&] { return running->steps_done() == steps && ++asked == ask; }});
    running = &trainer;
    const TrainResult result = trainer.run();
    EXPECT_EQ(result.end, TrainEnd::stopped);
    EXPECT_EQ(result.steps, steps);
    EXPECT_EQ(asked, ask);
    EXPECT_TRUE(trainer.history().evaluations().empty());
    return result;
  }
  static std::string adapter(const TrainResult& result) {
    return read_file(result.model_directory + "/adapter_model.safetensors");
  }

  inline static std::unique_ptr<test::TemporaryDirectory> directory_;
  inline static std::string base_;
};

constexpr const char* kVowels = "{type: regex, pattern: '[e-o]'}";

TEST_F(GrpoTrainingTest, TheRewardRises) {
  LanguageTrainer trainer(
      config("rise", kVowels,
             {"max_steps=40", "adapter=none", "micro_batch_size=16", "trl.max_completion_length=3"}));
  trainer.run();
  const auto& steps = trainer.history().steps();
  double before = 0, after = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    before += first_metric(steps[i]) / 5;
    after += first_metric(steps[steps.size() - 1 - i]) / 5;
  }
  EXPECT_EQ(steps.front().values.front().first, "reward");
  EXPECT_GT(after, before + 0.3);
}

TEST_F(GrpoTrainingTest, ResumingGivesTheBitsOfARunThatNeverStopped) {
  const std::vector<std::string> more{"gradient_accumulation_steps=2", "micro_batch_size=4",
                                      "lora_dropout=0.1", "trl.beta=0.1"};
  const std::string expected = adapter(LanguageTrainer(config("whole", kVowels, more)).run());
  TrainConfig part = config("part", kVowels, more);
  stop(part, 2);
  part.resume_from_checkpoint = true;
  LanguageTrainer resumed(part);
  EXPECT_EQ(resumed.steps_done(), 2);
  EXPECT_EQ(adapter(resumed.run()), expected);
}

double metric(const StepRecord& record, const std::string& name) {
  return std::ranges::find(record.values, name, [](const auto& value) { return value.first; })->second;
}

TEST_F(GrpoTrainingTest, SeveralStepsLearnFromTheSameAnswersWithClippedRatios) {
  LanguageTrainer trainer(config("iterations", kVowels,
                                 {"trl.num_iterations=2", "trl.epsilon=0.001", "micro_batch_size=4",
                                  "gradient_accumulation_steps=2", "max_steps=6"}));
  trainer.run();
  const auto& steps = trainer.history().steps();
  ASSERT_EQ(steps.size(), 6U);
  double clipped = 0;
  for (std::size_t i = 0; i < steps.size(); i += 2) {
    for (const char* name : {"reward", "reward_std", "completions/mean_length"})
      EXPECT_EQ(metric(steps[i], name), metric(steps[i + 1], name)) << i;
    EXPECT_EQ(metric(steps[i], "clip_ratio/region_mean"), 0) << i;  // by the model that wrote them
    clipped += metric(steps[i + 1], "clip_ratio/region_mean");
  }
  EXPECT_GT(clipped, 0);
}

TEST_F(GrpoTrainingTest, AnEpochHasAsManyStepsMoreAsLearnFromTheSameAnswers) {
  const auto steps = [](const std::string& output, const char* iterations) {
    return LanguageTrainer(config(output, kVowels, {iterations, "max_steps=-1", "num_epochs=1"}))
        .total_steps();
  };
  EXPECT_EQ(steps("epoch-3", "trl.num_iterations=3"), 3 * steps("epoch-1", "trl.num_iterations=1"));
}

TEST_F(GrpoTrainingTest, ResumingBetweenStepsOfTheSameAnswersGivesTheSameBits) {
  const std::vector<std::string> more{"trl.num_iterations=3", "micro_batch_size=4", "lora_dropout=0.1",
                                      "gradient_accumulation_steps=2", "max_steps=5"};
  const std::string expected = adapter(LanguageTrainer(config("whole-3", kVowels, more)).run());
  TrainConfig part = config("part-3", kVowels, more);
  stop(part, 2);
  part.resume_from_checkpoint = true;
  LanguageTrainer resumed(part);
  EXPECT_EQ(resumed.steps_done(), 2);
  EXPECT_EQ(adapter(resumed.run()), expected);
}

// Steps of one rank: the trained weights, and the metrics of the last step.
std::pair<std::vector<std::vector<float>>, NamedValues> take_steps(const TrainConfig& config,
                                                                   dist::Communicator& ranks) {
  LanguageTask task(config, std::nullopt, {}, ranks);
  StepRecord record;
  for (std::int64_t step = 0; step < 3; ++step) {
    const StepWork work = task.gradients(step, {});
    task.read(work.metrics.to_vector<float>(), record);
    task.optimizer().apply(step, work.grad_scale);
  }
  std::vector<std::vector<float>> weights;
  for (const Parameter* parameter : task.optimizer().parameters())
    weights.push_back(parameter->value.detach().to_vector<float>());
  return {weights, record.values};
}

TEST_F(GrpoTrainingTest, RanksThatShareAStepOutHaveTheBitsOfOneProcess) {
  TrainConfig c = config("ranks", kVowels,
                         {"micro_batch_size=4", "gradient_accumulation_steps=2", "ordered_gradients=true",
                          "lora_dropout=0.1", "threads=1", "trl.num_iterations=2"});
  const auto alone = take_steps(c, *dist::alone());
  c.gradient_accumulation_steps = 1;
  for (const std::int64_t stage : {0, 3}) {
    c.zero_stage = stage;
    test::ThreadRanks(2).run([&](dist::Communicator& ranks) {
      const auto shared = take_steps(c, ranks);
      EXPECT_TRUE(shared.first == alone.first) << "ZeRO " << stage;
      EXPECT_EQ(shared.second.front(), alone.second.front());
      EXPECT_EQ(shared.second.size(), alone.second.size());
    });
  }
}

TEST_F(GrpoTrainingTest, ARewardThatFailsNamesStepAndPromptAndLosesNothing) {
  const std::string counter = directory_->at("calls");
  // Scores two steps, and fails in the third.
  const std::string command = "{type: command, seconds: 20, command: 'echo x >> " + counter +
                              "; test $(wc -l < " + counter + ") -lt 3 && sed \"s/.*/0.5/\"'}";
  TrainConfig c = config("failing", command);
  const std::string message = message_of<StepRefused>([&] { LanguageTrainer(c).run(); });
  EXPECT_NE(message.find("training step 3"), std::string::npos) << message;
  EXPECT_NE(message.find("reward 'command'"), std::string::npos) << message;
  EXPECT_NE(message.find("prompts.jsonl, line "), std::string::npos) << message;
  EXPECT_NE(message.find("checkpoint-000002"), std::string::npos) << message;
  // With a reward that works it goes on as if nothing had been.
  std::ofstream(counter, std::ios::trunc).close();
  c.resume_from_checkpoint = true;
  c.max_steps = 3;
  LanguageTrainer resumed(c);
  EXPECT_EQ(resumed.steps_done(), 2);
  resumed.run();
  EXPECT_EQ(resumed.steps_done(), 3);
}

TEST_F(GrpoTrainingTest, ValidationMeasuresTheReward) {
  TrainConfig c = config("validated", "{type: math, name: right}", {"max_steps=1"});
  c.validation_split_ratio = 0.2;
  LanguageTrainer trainer(c);
  trainer.run();
  const EvalRecord& record = trainer.history().evaluations().back();
  ASSERT_EQ(record.values.size(), 2U);
  EXPECT_EQ(record.values[0].first, "reward");
  EXPECT_EQ(record.values[1].first, "rewards/right/mean");
  EXPECT_EQ(record.loss, -record.values[0].second);
}

// Within a token, and without a word of it; the run that goes on evaluates first.
TEST_F(GrpoTrainingTest, AStopEndsAnEvaluationBetweenTwoTokensOfItsAnswers) {
  const auto with = [](const std::string& output) {
    TrainConfig c = config(output, kVowels, {"max_steps=3"});
    c.validation_split_ratio = 0.2;
    c.eval_steps = 2;
    return c;
  };
  const std::string expected = adapter(LanguageTrainer(with("evaluated")).run());
  TrainConfig c = with("halted");
  stop(c, 2, 3);  // the evaluation's third token, of up to six
  c.resume_from_checkpoint = true;
  LanguageTrainer second(c);
  EXPECT_EQ(second.steps_done(), 2);
  EXPECT_EQ(adapter(second.run()), expected);
  EXPECT_EQ(second.history().evaluations().size(), 2U);
}

// The step is begun anew: nothing of it is in the checkpoint.
TEST_F(GrpoTrainingTest, AStopEndsAStepBetweenTwoTokensOfItsAnswers) {
  const std::vector<std::string> more{"gradient_accumulation_steps=2", "micro_batch_size=4",
                                      "lora_dropout=0.1", "trl.beta=0.1"};
  const std::string expected = adapter(LanguageTrainer(config("unstopped", kVowels, more)).run());
  for (const std::int64_t steps : {0, 2}) {
    TrainConfig c = config("cut-" + std::to_string(steps), kVowels, more);
    const TrainResult cut = stop(c, steps, 3);  // behind step 2 comes its own ask, then two tokens
    EXPECT_NE(cut.last_checkpoint.find("checkpoint-00000" + std::to_string(steps)), std::string::npos);
    c.resume_from_checkpoint = true;
    LanguageTrainer resumed(c);
    EXPECT_EQ(resumed.steps_done(), steps);
    EXPECT_EQ(adapter(resumed.run()), expected);
  }
}

TEST_F(GrpoTrainingTest, KeysAndDataThatDoNotFitAreRefused) {
  const auto expect = [&](const std::string& change, const std::string& part) {
    const std::string message =
        message_of<Error>([&] { LanguageTrainer trainer(config("refused", kVowels, {change})); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect("trl.num_generations=3", "trl.num_generations");
  expect("trl.reward_funcs=[rewards.f]", "Python functions");
  expect("trl.num_iterations=0", "num_iterations");
  expect("trl.max_completion_length=40", "sequence_len");
  expect("trl.reward_weights=[1, 2]", "2 numbers for 1 rewards");
  expect("trl.max_completion_length=30", "no prompt has at most 2 tokens");
}

TEST_F(GrpoTrainingTest, ThePreviewShowsPrompts) {
  const TrainConfig c = config("preview", kVowels);
  const text::Tokenizer tokenizer = run_tokenizer(c);
  const DataPreview preview = preview_data(prepare_data(c, tokenizer), tokenizer, 2);
  ASSERT_EQ(preview.samples.size(), 2U);
  EXPECT_EQ(preview.samples[0].role, "prompt");
  EXPECT_EQ(preview.samples[0].pieces[0].text, "Ask 0:");
  EXPECT_EQ(preview.train_samples, 40);
}

}  // namespace
}  // namespace ingot
