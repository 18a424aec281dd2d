// rl: dpo and its kin through the whole trainer.
#include <algorithm>
#include <cmath>
#include <fstream>

#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/train/language/data_preview.h"
#include "ingot/train/language/language_trainer.h"

namespace ingot {
namespace {

using test::message_of;

// A tiny base model, and pairs whose better answer is polite.
class PreferenceTrainingTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<test::TemporaryDirectory>();
    std::ofstream text(directory_->at("text.txt")), pairs(directory_->at("pairs.jsonl")),
        verdicts(directory_->at("verdicts.jsonl"));
    for (int i = 0; i < 60; ++i) {
      text << "Ask " << i << ": yes please, no never.\n";
      pairs << R"({"prompt": "Ask )" << i << R"(:", "chosen": " yes please", "rejected": " no never"})"
            << "\n";
      verdicts << R"({"prompt": "Ask )" << i << R"(:", "completion": ")" << (i % 2 == 0 ? " yes" : " no")
               << R"(", "label": )" << (i % 2 == 0 ? "true" : "false") << "}\n";
    }
    text.close();
    TrainConfig c;
    c.from_scratch = true;
    apply_family(c.architecture);
    c.architecture.hidden_size = c.architecture.intermediate_size = 32;
    c.architecture.num_hidden_layers = 1;
    c.architecture.num_attention_heads = c.architecture.num_key_value_heads = 2;
    c.vocab_size = 280;
    c.datasets = {{.path = directory_->at("text.txt")}};
    c.output_dir = directory_->at("base");
    c.sequence_len = 32;
    c.max_steps = 1;
    c.report_to = {};
    base_ = LanguageTrainer(c).run().model_directory;
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static TrainConfig config(const std::string& output, const std::string& rl, const std::string& more = {}) {
    const std::string file = rl == "kto" ? "verdicts.jsonl" : "pairs.jsonl";
    Config yaml =
        Config::parse("base_model: " + base_ + "\nrl: " + rl + "\noutput_dir: " + directory_->at(output) +
                      "\ndatasets:\n  - path: " + directory_->at(file) +
                      "\nsequence_len: 32\nmicro_batch_size: 4\nmax_steps: 8\n"
                      "learning_rate: 0.02\nval_set_size: 0.2\neval_steps: 0\nsave_steps: 0\n" +
                      (more.find("report_to") == more.npos ? "report_to: []\n" : "") + more);
    return read_train_config(yaml);
  }
  static double metric(const NamedValues& metrics, const std::string& name) {
    const auto found = std::ranges::find(metrics, name, [](const auto& m) { return m.first; });
    return found == metrics.end() ? -1e9 : found->second;
  }

  inline static std::unique_ptr<test::TemporaryDirectory> directory_;
  inline static std::string base_;
};

constexpr const char* kLora = "adapter: lora\nlora_r: 4\nlora_alpha: 8\n";

TEST_F(PreferenceTrainingTest, EveryObjectiveLearnsToPreferTheBetterAnswers) {
  for (const std::string rl : {"dpo", "ipo", "orpo", "simpo", "kto"}) {
    SCOPED_TRACE(rl);
    LanguageTrainer trainer(config("learn-" + rl, rl, kLora));
    trainer.run();
    const EvalRecord last = trainer.history().evaluations().back();
    if (rl != "kto") EXPECT_EQ(metric(last.values, "rewards/accuracies"), 1);
    EXPECT_GT(metric(last.values, "rewards/margins"), 0.01);
    EXPECT_GT(metric(trainer.history().steps().back().values, "rewards/margins"), 0.01);
  }
}

TEST_F(PreferenceTrainingTest, FreshAdaptersEqualTheReference) {
  for (const std::string more : {kLora, ""}) {
    LanguageTrainer trainer(config("fresh" + std::to_string(more.size()), "dpo", more));
    EXPECT_NEAR(*trainer.evaluate(), std::log(2.0), 1e-6);
  }
}

TEST_F(PreferenceTrainingTest, ARunThatGoesOnWithAnAdapterComparesWithIt) {
  const TrainResult first = LanguageTrainer(config("stage1", "dpo", kLora)).run();
  TrainConfig second =
      config("stage2", "dpo", std::string(kLora) + "lora_model_dir: " + first.model_directory);
  second.optimizer.learning_rate = 2e-3;
  LanguageTrainer trainer(second);
  EXPECT_NEAR(*trainer.evaluate(), std::log(2.0), 1e-6);
  EXPECT_LT(*trainer.run().validation_loss, std::log(2.0) - 0.005);
}

TEST_F(PreferenceTrainingTest, ResumingGivesTheBitsOfARunThatNeverStopped) {
  for (const std::string rl : {"dpo", "kto", "orpo"}) {
    SCOPED_TRACE(rl);
    const std::string adapter = std::string(kLora) + "lora_dropout: 0.1\ngradient_accumulation_steps: 2\n";
    const auto bytes = [](const TrainResult& result) {
      return read_file(result.model_directory + "/adapter_model.safetensors");
    };
    const std::string expected = bytes(LanguageTrainer(config("whole-" + rl, rl, adapter)).run());
    TrainConfig part = config("part-" + rl, rl, adapter);
    int asked = 0;
    LanguageTrainer(part, {.should_stop = [&] { return ++asked == 3; }}).run();
    part.resume_from_checkpoint = true;
    LanguageTrainer resumed(part);
    EXPECT_EQ(resumed.steps_done(), 3);
    EXPECT_EQ(bytes(resumed.run()), expected);
  }
}

TEST_F(PreferenceTrainingTest, AnotherObjectiveThanTheRunsIsRefusedByItsKey) {
  TrainConfig c = config("settings", "dpo", kLora);
  c.max_steps = 1;
  LanguageTrainer(c).run();
  c.resume_from_checkpoint = true;
  c.objective.beta = 0.5;
  EXPECT_NE(message_of<InvalidConfig>([&] { LanguageTrainer again(c); }).find("rl_beta"), std::string::npos);
}

TEST_F(PreferenceTrainingTest, ReportersTellTrlsNames) {
  LanguageTrainer trainer(config("reports", "dpo", std::string(kLora) + "report_to: [jsonl, html]"));
  trainer.run();
  const std::string lines = read_file(directory_->at("reports/metrics.jsonl"));
  for (const char* name :
       {"\"rewards/chosen\"", "\"rewards/margins\"", "\"logps/rejected\"", "\"rewards/accuracies\""})
    EXPECT_NE(lines.find(name), std::string::npos) << name;
  EXPECT_NE(read_file(directory_->at("reports/report.html")).find("rewards/margins"), std::string::npos);
  const RunHistory again = read_history(directory_->at("reports"), 8);
  EXPECT_EQ(metric(again.steps().back().values, "rewards/margins"),
            metric(trainer.history().steps().back().values, "rewards/margins"));
}

TEST_F(PreferenceTrainingTest, ThePreviewShowsBothAnswers) {
  const TrainConfig c = config("preview", "dpo");
  const text::Tokenizer tokenizer = run_tokenizer(c);
  const DataPreview preview = preview_data(prepare_data(c, tokenizer), tokenizer, 1);
  ASSERT_EQ(preview.samples.size(), 2U);
  EXPECT_EQ(preview.samples[0].role, "chosen");
  EXPECT_EQ(preview.samples[1].role, "rejected");
  EXPECT_EQ(preview.samples[0].pieces[0].text, preview.samples[1].pieces[0].text);
  EXPECT_FALSE(preview.samples[0].pieces[0].trained);
  EXPECT_EQ(preview.samples[1].pieces[1].text.substr(0, 9), " no never");
  EXPECT_TRUE(preview.samples[1].pieces[1].trained);
}

TEST_F(PreferenceTrainingTest, KeysAndDataThatDoNotFitAreRefused) {
  const auto problem = [&](const std::string& rl, const std::string& more) {
    return message_of<Error>([&] { LanguageTrainer trainer(config("refused", rl, more)); });
  };
  EXPECT_NE(problem("ebft", "").find("dpo"), std::string::npos);
  EXPECT_NE(problem("sft", "rl_beta: 0.2").find("needs rl"), std::string::npos);
  EXPECT_NE(problem("dpo", "orpo_alpha: 0.2").find("not a key of rl: dpo"), std::string::npos);
  EXPECT_NE(problem("kto", "per_device_train_batch_size: 1").find("per_device_train_batch_size"),
            std::string::npos);
  TrainConfig short_ones = config("short", "dpo");
  short_ones.sequence_len = 3;
  EXPECT_NE(message_of<InvalidConfig>([&] { LanguageTrainer trainer(short_ones); }).find("sequence_len"),
            std::string::npos);
}

}  // namespace
}  // namespace ingot
