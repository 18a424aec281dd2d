#include "ingot/train/language/language_trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/support/temporary_directory.h"
#include "tests/train/hook_reporter.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/fault.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/log.h"
#include "ingot/base/parallel.h"
#include "ingot/core/backend.h"
#include "ingot/models/language/gguf_export.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/models/open_tokenizer.h"
#include "ingot/nn/param_source.h"
#include "ingot/train/checkpoint_directory.h"
#include "ingot/train/language/dataset.h"
#include "ingot/train/language/memory_plan.h"
#include "ingot/train/task.h"
#include "ingot/weights/encode.h"

namespace ingot {
namespace {

namespace fs = std::filesystem;

// A directory of its own for each test, gone afterwards.
class LanguageTrainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "ingot-trainer-" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(directory_);
    fs::create_directories(directory_);
    std::ofstream text(directory_ + "/text.txt");
    for (int i = 0; i < 400; ++i)
      text << "The number " << i << " is followed by the number " << i + 1 << ".\n";
  }
  void TearDown() override { fs::remove_all(directory_); }

  TrainConfig config(const std::string& output) const {
    TrainConfig c;
    c.from_scratch = true;
    apply_family(c.architecture);
    c.architecture.hidden_size = 32;
    c.architecture.intermediate_size = 64;
    c.architecture.num_hidden_layers = 2;
    c.architecture.num_attention_heads = 4;
    c.architecture.num_key_value_heads = 2;
    c.vocab_size = 300;
    c.datasets = {{.path = directory_ + "/text.txt"}};
    c.cache_dir = directory_ + "/cache";
    c.output_dir = directory_ + "/" + output;
    c.sequence_len = 32;
    c.per_device_train_batch_size = 2;
    c.max_steps = 6;
    c.optimizer.learning_rate = 1e-2;
    c.eval_steps = 3;
    c.eval_batches = 2;
    c.save_steps = 0;
    return c;
  }

  static std::string model_bytes(const TrainResult& result) {
    return read_file(result.model_directory + "/model.safetensors");
  }

  std::string directory_;
};

TEST_F(LanguageTrainerTest, AnEvaluationThatIsStoppedThrowsAndTheNextOneGivesTheLoss) {
  LanguageTrainer trainer(config("run"));
  EXPECT_THROW(trainer.evaluate([] { return true; }), WorkStopped);
  EXPECT_EQ(*trainer.evaluate([] { return false; }), *trainer.evaluate());
}

TEST_F(LanguageTrainerTest, LearnsAndLeavesAModelThatOpens) {
  TrainConfig c = config("run");
  c.max_steps = 60;
  LanguageTrainer trainer(c);
  const double before = *trainer.evaluate();
  const TrainResult result = trainer.run();
  EXPECT_LT(*result.validation_loss, before - 1.0);
  EXPECT_EQ(result.steps, 60);
  const auto model = load_language_model(result.model_directory);
  EXPECT_EQ(model->config.vocab_size, trainer.tokenizer().vocab_size());
  EXPECT_TRUE(fs::exists(result.model_directory + "/tokenizer.json"));
  EXPECT_TRUE(fs::exists(result.model_directory + "/generation_config.json"));
}

// Families that differ most from Llama: post-norms and soft-caps, experts, fused projections.
TEST_F(LanguageTrainerTest, SaysWhenTheTextIsTooSmallForTheVocabulary) {
  const auto said = [&](std::int64_t vocab_size) {
    TrainConfig c = config("run");
    c.vocab_size = vocab_size;
    ::testing::internal::CaptureStderr();
    const std::int64_t got = train_tokenizer(c).vocab_size();
    const std::string text = ::testing::internal::GetCapturedStderr();
    return std::pair{got, text};
  };
  EXPECT_EQ(said(300), (std::pair<std::int64_t, std::string>{300, ""}));
  const auto [got, text] = said(50'000);
  EXPECT_LT(got, 50'000);
  EXPECT_NE(
      text.find("vocab_size: 50000 tokens were asked for, but the text gives only " + std::to_string(got)),
      std::string::npos)
      << text;
}

TEST_F(LanguageTrainerTest, KeepsWhatTheModelItStartsFromSaysOfGenerating) {
  const std::string start = LanguageTrainer(config("start")).run().model_directory;
  write_file_atomically(start + "/generation_config.json",
                        R"({"do_sample": true, "temperature": 0.6, "eos_token_id": [3, 7]})");
  auto tokenizer = parse_json<nlohmann::json>(read_file(start + "/tokenizer_config.json"), "tokenizer");
  tokenizer["chat_template"] = "{% for m in messages %}{{ m.content }}{% endfor %}";
  write_file_atomically(start + "/tokenizer_config.json", tokenizer.dump());
  TrainConfig c = config("run");
  c.from_scratch = false;
  c.model = start;
  c.save_steps = 3;
  const TrainResult result = LanguageTrainer(c).run();
  for (const std::string& directory : {result.model_directory, result.last_checkpoint}) {
    const std::string path = directory + "/generation_config.json";
    const auto json = parse_json<nlohmann::json>(read_file(path), path);
    EXPECT_EQ(json.at("temperature"), 0.6) << directory;
    const auto ends = json.at("eos_token_id").get<std::vector<int>>();
    for (const int id : {3, 7}) EXPECT_EQ(std::ranges::count(ends, id), 1) << directory;
    EXPECT_EQ(text::Tokenizer::from_directory(directory).config().chat_template, tokenizer["chat_template"]);
  }
}

TEST_F(LanguageTrainerTest, StartsFromAModelOfAnyFamilyAndWritesOneOfTheSame) {
  const TrainResult first = LanguageTrainer(config("tokenizer")).run();
  for (const std::string family :
       {"gemma2", "gemma3_text", "gemma4_text", "qwen3_moe", "mixtral", "phi3", "gpt2"}) {
    LanguageConfig architecture = load_language_model(first.model_directory)->config;
    architecture.model_type = family;
    apply_family(architecture);
    architecture.num_key_value_heads = family == "gpt2" ? 4 : 2;
    if (family.ends_with("moe") || family == "mixtral") {
      architecture.num_experts = 4;
      architecture.num_experts_per_tok = 2;
    }
    if (family.starts_with("gemma")) architecture.final_logit_softcapping = 20;
    InitSource source(1);
    LanguageModel model(architecture, source);
    const std::string start = directory_ + "/" + family;
    write_language_model(start, model.config, parameter_map(model));
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
      if (fs::exists(first.model_directory + "/" + file)) {
        fs::copy_file(first.model_directory + "/" + file, start + "/" + file);
      }
    }
    TrainConfig c = config(family + "-run");
    c.from_scratch = false;
    c.model = start;
    c.max_steps = 20;
    LanguageTrainer trainer(c);
    const double before = *trainer.evaluate();
    const TrainResult result = trainer.run();
    EXPECT_LT(*result.validation_loss, before - 0.5) << family;
    EXPECT_EQ(load_language_model(result.model_directory)->config.model_type, family);
  }
}

TEST_F(LanguageTrainerTest, StartsFromAGgufFileWithItsOwnTokenizer) {
  const TrainResult first = LanguageTrainer(config("first")).run();
  const std::string start = directory_ + "/start.gguf";
  GgufExport gguf = export_gguf(open_checkpoint(first.model_directory));
  const std::int64_t rows = load_language_model(first.model_directory)->config.vocab_size;
  ASSERT_TRUE(write_gguf_tokenizer(first.model_directory, rows, gguf.metadata));
  write_gguf(start, gguf.metadata, gguf_tensors(*gguf.weights));
  TrainConfig c = config("second");
  c.from_scratch = false;
  c.model = start;
  c.max_steps = 20;
  EXPECT_EQ(planned_architecture(c).vocab_size, rows);
  LanguageTrainer trainer(c);
  EXPECT_EQ(trainer.tokenizer().encode("number 12"),
            text::Tokenizer::from_directory(first.model_directory).encode("number 12"));
  const double before = *trainer.evaluate();
  EXPECT_LT(*trainer.run().validation_loss, before - 0.5);
}

TEST_F(LanguageTrainerTest, MixturesOfExpertsLearnFromScratchWithBalancedExperts) {
  for (const std::string family : {"mixtral", "qwen3_moe"}) {
    TrainConfig c = config(family + "-scratch");
    c.architecture.model_type = family;
    apply_family(c.architecture);
    c.architecture.num_experts = 4;
    c.architecture.num_experts_per_tok = 2;
    c.router_aux_loss_coef = 0.05;
    c.max_steps = 40;
    LanguageTrainer trainer(c);
    const double before = *trainer.evaluate();
    const TrainResult result = trainer.run();
    EXPECT_LT(*result.validation_loss, before - 1.0) << family;
    EXPECT_EQ(load_language_model(result.model_directory)->config.router_aux_loss_coef, 0.05);
  }
}

TEST_F(LanguageTrainerTest, ResumingGivesTheBitsOfARunThatNeverStopped) {
  const auto adapt = [](TrainConfig& c) {
    c.ema_decay = 0.9;
    c.gradient_accumulation_steps = 2;
    c.max_steps = 7;
  };
  TrainConfig whole = config("whole");
  adapt(whole);
  const std::string expected = model_bytes(LanguageTrainer(whole).run());

  TrainConfig halted = config("halted");
  adapt(halted);
  int steps = 0;
  const TrainResult first = LanguageTrainer(halted, {.should_stop = [&] { return ++steps == 3; }}).run();
  EXPECT_EQ(first.end, TrainEnd::stopped);
  EXPECT_EQ(first.steps, 3);
  halted.resume_from_checkpoint = true;
  LanguageTrainer second(halted);
  EXPECT_EQ(second.steps_done(), 3);
  EXPECT_EQ(model_bytes(second.run()), expected);
  // The history goes on without a gap or a step told twice.
  ASSERT_EQ(second.history().steps().size(), 7U);
  for (std::size_t i = 0; i < 7; ++i)
    EXPECT_EQ(second.history().steps()[i].step, static_cast<std::int64_t>(i + 1));
}

TEST_F(LanguageTrainerTest, StopsBetweenTheBatchesOfAnEvaluation) {
  TrainConfig c = config("run");
  c.eval_batches = 0;
  const std::string expected = model_bytes(LanguageTrainer(c).run());
  c.output_dir = directory_ + "/halted";
  int asked = 0;  // after steps 1 and 2, then by batches
  LanguageTrainer halted(c, {.should_stop = [&] { return ++asked == 5; }});
  const TrainResult first = halted.run();
  EXPECT_EQ(first.end, TrainEnd::stopped);
  EXPECT_EQ(first.steps, 3);
  EXPECT_TRUE(halted.history().evaluations().empty());
  c.resume_from_checkpoint = true;
  LanguageTrainer second(c);
  EXPECT_EQ(second.steps_done(), 3);
  EXPECT_EQ(model_bytes(second.run()), expected);
  EXPECT_EQ(second.history().evaluations().size(), 2U);
}

TEST_F(LanguageTrainerTest, ADamagedCheckpointIsPassedOverForTheOneBefore) {
  TrainConfig c = config("run");
  c.save_steps = 2;
  const std::string expected = model_bytes(LanguageTrainer(c).run());
  fs::remove_all(c.output_dir + "/model");
  fs::resize_file(CheckpointDirectory(c.output_dir).path(6) + "/model.safetensors", 1000);
  std::ofstream(CheckpointDirectory(c.output_dir).path(4) + "/config.json", std::ios::app) << " ";
  c.resume_from_checkpoint = true;
  LanguageTrainer again(c);
  EXPECT_EQ(again.steps_done(), 2);
  EXPECT_EQ(model_bytes(again.run()), expected);
}

TEST_F(LanguageTrainerTest, WhenEveryCheckpointIsDamagedItSaysWhatIsWrong) {
  TrainConfig c = config("run");
  LanguageTrainer(c).run();
  fs::remove(CheckpointDirectory(c.output_dir).path(6) + "/optimizer.safetensors");
  c.resume_from_checkpoint = true;
  try {
    LanguageTrainer trainer(c);
    FAIL();
  } catch (const IoError& error) {
    EXPECT_NE(std::string(error.what()).find("optimizer.safetensors"), std::string::npos) << error.what();
  }
}

TEST_F(LanguageTrainerTest, AForeignModelDirectoryIsNoCheckpoint) {
  const TrainResult result = LanguageTrainer(config("run")).run();
  try {
    CheckpointDirectory(directory_).verify(result.model_directory);
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_NE(std::string(error.what()).find("SHA256SUMS"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("model:"), std::string::npos);
  }
}

TEST_F(LanguageTrainerTest, AFullDiskWhileSavingLosesNothingThatWasSaved) {
  TrainConfig c = config("full");
  c.save_steps = 3;
  int saves = 0;
  std::unique_ptr<ScopedFault> fault;
  const auto reporter = std::make_shared<test::HookReporter>();
  const LanguageTrainerHooks hooks{.reporters = {reporter}};
  reporter->on_save = [&](const std::string&) {
    if (++saves == 1) fault = std::make_unique<ScopedFault>(parse_fault("no_space:write:20000"));
  };
  LanguageTrainer full(c, hooks);
  EXPECT_THROW(full.run(), IoError);
  fault.reset();
  const CheckpointDirectory checkpoints(directory_ + "/full");
  const auto entries = checkpoints.list();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries.front().step, 3);
  EXPECT_NO_THROW(checkpoints.verify(entries.front().path));
}

TEST_F(LanguageTrainerTest, AccumulatedMicroBatchesEqualOneBatch) {
  TrainConfig one = config("one"), four = config("four");
  one.per_device_train_batch_size = 4;
  one.optimizer.name = four.optimizer.name = "sgd";  // linear in the gradient: no sign flips of tiny values
  one.optimizer.learning_rate = four.optimizer.learning_rate = 0.5;
  four.per_device_train_batch_size = 1;
  four.gradient_accumulation_steps = 4;
  LanguageTrainer a(one), b(four);
  a.run();
  b.run();
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(a.history().steps()[i].loss, b.history().steps()[i].loss, 1e-4);
    EXPECT_NEAR(a.history().steps()[i].grad_norm, b.history().steps()[i].grad_norm,
                1e-3 * a.history().steps()[i].grad_norm);
  }
}

TEST_F(LanguageTrainerTest, RecomputationAndFewerThreadsTrainTheSameModel) {
  TrainConfig plain = config("plain"), recomputed = config("recomputed"), single = config("single");
  TrainConfig selective = config("selective");
  recomputed.recompute = Recompute::full;
  selective.recompute = Recompute::selective;
  single.threads = 1;
  const int threads = num_threads();
  LanguageTrainer a(plain), b(recomputed);
  const auto expected = model_bytes(a.run());
  EXPECT_EQ(model_bytes(b.run()), expected);
  EXPECT_EQ(model_bytes(LanguageTrainer(selective).run()), expected);
  LanguageTrainer c(single);
  c.run();
  set_num_threads(threads);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(a.history().steps()[i].loss, c.history().steps()[i].loss,
                1e-4);  // sums are split differently
  }
}

TEST_F(LanguageTrainerTest, ALossThatIsNotFiniteNamesTheStepAndKeepsTheCheckpoint) {
  TrainConfig c = config("run");
  c.optimizer.learning_rate = 1e30;
  c.optimizer.max_grad_norm = 0;
  c.optimizer.name = "sgd";
  c.save_steps = 1;
  c.max_steps = 50;
  try {
    LanguageTrainer(c).run();
    FAIL();
  } catch (const NonFinite& error) {
    EXPECT_NE(std::string(error.what()).find("training step"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("learning_rate"), std::string::npos);
  }
  const CheckpointDirectory checkpoints(c.output_dir);
  EXPECT_NO_THROW(checkpoints.verify(checkpoints.list().front().path));
}

TEST_F(LanguageTrainerTest, OldCheckpointsGoAndTheBestStays) {
  TrainConfig c = config("run");
  c.save_steps = 1;
  c.eval_steps = 1;
  c.save_total_limit = 2;
  c.optimizer.learning_rate = 0.5;  // so that it gets worse after a while
  c.max_steps = 8;
  LanguageTrainer trainer(c);
  const TrainResult result = trainer.run();
  std::int64_t best = 0;
  for (const EvalRecord& r : trainer.history().evaluations()) {
    if (r.loss == *result.best_validation_loss) {
      best = r.step;
      break;
    }
  }
  std::vector<std::int64_t> steps;
  for (const auto& entry : CheckpointDirectory(c.output_dir).list()) steps.push_back(entry.step);
  std::vector<std::int64_t> expected{best, 7, 8};
  std::ranges::sort(expected);
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  EXPECT_EQ(steps, expected);
}

TEST_F(LanguageTrainerTest, StopsEarlyWhenValidationStopsImproving) {
  TrainConfig c = config("run");
  c.optimizer.learning_rate = 0;
  c.eval_steps = 1;
  c.early_stopping_patience = 2;
  c.max_steps = 50;
  const TrainResult result = LanguageTrainer(c).run();
  EXPECT_EQ(result.end, TrainEnd::stopped_early);
  EXPECT_EQ(result.steps, 3);  // the first evaluation is the best there ever was
}

TEST_F(LanguageTrainerTest, ARunDoesNotOverwriteAnother) {
  LanguageTrainer(config("run")).run();
  try {
    LanguageTrainer trainer(config("run"));
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_EQ(error.key, "output_dir");
    EXPECT_NE(std::string(error.what()).find("--resume"), std::string::npos);
  }
}

TEST_F(LanguageTrainerTest, WhatCannotTrainIsRefusedBeforeAnythingIsWritten) {
  const auto key_of = [](const TrainConfig& c) -> std::string {
    try {
      LanguageTrainer trainer(c);
    } catch (const InvalidConfig& error) {
      return error.key;
    }
    return "none";
  };
  TrainConfig c = config("run");
  c.architecture.num_attention_heads = c.architecture.num_key_value_heads = 5;
  EXPECT_EQ(key_of(c), "num_attention_heads");
  c = config("run");
  c.datasets.clear();
  EXPECT_EQ(key_of(c), "datasets");
  c = config("run");
  c.max_steps = 0;
  EXPECT_EQ(key_of(c), "max_steps");
  c = config("run");
  c.sequence_len = 1000000;
  EXPECT_NE(key_of(c), "none");
  c = config("run");
  c.architecture.vocab_size = 100;
  EXPECT_EQ(key_of(c), "architecture.vocab_size");
  c = config("run");
  c.datasets = {{.path = directory_ + "/nowhere.txt"}};
  EXPECT_THROW(LanguageTrainer{c}, IoError);
  std::ofstream empty(directory_ + "/empty.txt");
  c.datasets = {{.path = directory_ + "/empty.txt"}};
  EXPECT_THROW(LanguageTrainer{c}, Error);
  EXPECT_FALSE(fs::exists(c.output_dir));
}

TEST_F(LanguageTrainerTest, AModelsDirectoryWithOtherFilesIsRefusedBeforeTheRun) {
  const TrainConfig c = config("run");
  fs::create_directories(c.output_dir + "/model");
  std::ofstream(c.output_dir + "/model/notes.txt") << "mine";
  EXPECT_THROW(LanguageTrainer{c}, IoError);
  EXPECT_TRUE(fs::exists(c.output_dir + "/model/notes.txt"));
}

TEST_F(LanguageTrainerTest, TheMemoryPlanIsNearWhatARunUses) {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    TrainConfig c = config(std::string(name(recompute)));
    c.sequence_len = 128;
    c.per_device_train_batch_size = 8;
    c.max_steps = 2;
    c.eval_steps = 0;
    c.recompute = recompute;
    MemoryTracker& tracker = backend(kCpu).memory();
    const std::size_t before = tracker.allocated();
    LanguageTrainer trainer(c);
    const MemoryPlan plan = plan_memory(c, trainer.model().config);
    tracker.reset_peak();
    trainer.run();
    const auto used = static_cast<double>(tracker.peak() - before);
    EXPECT_NEAR(static_cast<double>(plan.total()) / used, 1.0, 0.05) << "recompute " << name(recompute);
  }
}

TEST_F(LanguageTrainerTest, StepsEvaluationsAndMemoryGoToTheLogOnRequest) {
  TrainConfig c = config("logged");
  c.logging_steps = 2;
  c.report_to = {"log"};
  LogConfig logging = LogConfig::testing();
  logging.level = LogLevel::debug;
  logging.json = true;
  logging.file = directory_ + "/log";
  init_logging(logging);
  ::testing::internal::CaptureStderr();
  LanguageTrainer trainer(c);
  trainer.run();
  ::testing::internal::GetCapturedStderr();
  init_logging(LogConfig::testing());
  std::ifstream file(logging.file);
  int steps = 0, memory = 0;
  std::vector<double> evaluations;
  for (std::string text; std::getline(file, text);) {
    const auto line = parse_json<nlohmann::json>(text, "the test");
    if (line.at("message") == "Training step") {
      EXPECT_EQ(line.at("step"), 2 * ++steps);
      EXPECT_EQ(line.at("total_steps"), 6);
      EXPECT_EQ(line.at("loss"), trainer.history().steps()[static_cast<std::size_t>(steps - 1)].loss);
    } else if (line.at("message") == "Memory usage") {
      EXPECT_GE(line.at("peak_mb"), line.at("allocated_mb"));
      ++memory;
    } else if (line.at("message") == "Metrics") {
      evaluations.push_back(line.at("eval_loss"));
    }
  }
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(memory, 3);
  ASSERT_EQ(evaluations.size(), 2U);  // after steps 3 and 6
  EXPECT_EQ(evaluations[1], trainer.history().evaluations()[1].loss);
}

TEST_F(LanguageTrainerTest, ARunThatCannotFitIsRefusedWithAdvice) {
  TrainConfig c = config("run");
  MemoryPlan plan;
  plan.activations = 1000;
  plan.parameters = 10;
  const auto advice = [&](Recompute recompute) {
    c.recompute = recompute;
    try {
      check_memory(plan, c, 500);
    } catch (const OutOfMemory& error) {
      EXPECT_EQ(error.limit, 500U);
      const std::string text = error.what();
      return text.substr(text.find("to make it fit"));
    }
    return std::string("it fits");
  };
  EXPECT_EQ(
      advice(Recompute::none).find("to make it fit: recompute: selective, or recompute: true, or a smaller"),
      0U);
  EXPECT_EQ(advice(Recompute::selective).find("to make it fit: recompute: true, or a smaller"), 0U);
  EXPECT_EQ(advice(Recompute::full).find("to make it fit: a smaller"), 0U);
  EXPECT_NO_THROW(check_memory(plan, c, 2000));
  plan.waiting = 2048;
  const std::string message = test::message_of<OutOfMemory>([&] { check_memory(plan, c, 2000); });
  EXPECT_NE(message.find("2.00 KiB buckets of gradients that wait"), std::string::npos) << message;
}

TEST(MemoryPlan, OnAGpuOnlyWhatComesAndGoesNeedsATenthMore) {
  MemoryPlan plan;
  plan.parameters = 600;
  plan.activations = 300;
  plan.transients = 100;
  plan.moving = 500;  // of another moment
  EXPECT_EQ(plan.needed(), 1100U);
  plan.on_gpu = true;
  EXPECT_EQ(plan.needed(), 1050U);
}

}  // namespace
}  // namespace ingot
