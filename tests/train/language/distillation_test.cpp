// Distillation: trl's divergences (tools/goldens/distillation_losses.py), and runs that learn from a teacher.
#include "ingot/train/language/distillation.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/base/config.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/ops/reduce.h"
#include "ingot/train/language/distillation_capture.h"
#include "ingot/train/language/distillation_loss.h"
#include "ingot/train/language/language_task.h"
#include "ingot/train/language/language_trainer.h"
#include "ingot/train/language/memory_plan.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;
using test::message_of;

const Json& distillation_goldens() {
  static const Json all = [] {
    const std::string path = test::source_dir() + "/tests/train/language/distillation_goldens.json";
    return parse_json<Json>(read_file(path), path);
  }();
  return all;
}

Tensor golden_logits(const char* name) {
  const Json& all = distillation_goldens();
  return Tensor::from(all[name].get<std::vector<float>>(), {all["tokens"], all["classes"]});
}

void expect_loss_and_gradient(const Json& golden, const std::function<Tensor(const Tensor&)>& of) {
  Tensor logits = golden_logits("model");
  logits.set_requires_grad(true);
  const Tensor loss = sum(of(logits));
  EXPECT_NEAR(loss.item(), golden["loss"].get<double>(), 1e-5);
  backward(loss);
  const std::vector<float> grad = logits.grad().to_vector<float>();
  for (std::size_t i = 0; i < grad.size(); ++i) EXPECT_NEAR(grad[i], golden["grad"][i].get<double>(), 1e-6);
}

TEST(DistillationLoss, DivergencesAndGradientsAreTrls) {
  for (const Json& golden : distillation_goldens()["divergences"]) {
    SCOPED_TRACE(dump_json(golden).substr(0, 40));
    expect_loss_and_gradient(golden, [&](const Tensor& logits) {
      return distillation_divergence(logits, golden_logits("teacher"), golden["beta"], golden["temperature"]);
    });
  }
}

TEST(DistillationLoss, OfTheMostProbableTokensItIsTheirRenormalizedDivergence) {
  const Json& all = distillation_goldens();
  const Shape shape{all["tokens"], all["top_k"]};
  for (const Json& golden : all["of_top_k"]) {
    const Tensor indices = Tensor::from(golden["indices"].get<std::vector<std::int64_t>>(), shape),
                 log_probs = Tensor::from(golden["log_probs"].get<std::vector<float>>(), shape);
    expect_loss_and_gradient(golden, [&](const Tensor& logits) {
      return top_k_divergence(logits, indices, log_probs, golden["temperature"]);
    });
  }
}

// A teacher that knows a text, and a student of the same tokenizer that does not.
class DistillationTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<test::TemporaryDirectory>();
    std::ofstream text(directory_->at("text.txt")), other(directory_->at("other.txt"));
    for (int i = 0; i < 60; ++i) {
      text << "The number " << i << " is followed by the number " << i + 1 << ".\n";
      other << "Zwölf Boxkämpfer jagen Viktor " << i << " quer über den Sylter Deich.\n";
    }
    text.close();
    other.close();
    teacher_ = train_one("teacher", "text.txt", 15, "");
    student_ = train_one("student", "text.txt", 1, teacher_);
    stranger_ = train_one("stranger", "other.txt", 1, "");
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static std::string train_one(const std::string& output, const char* text, std::int64_t steps,
                               const std::string& tokenizer) {
    TrainConfig c;
    c.from_scratch = true;
    apply_family(c.architecture);
    c.architecture.hidden_size = c.architecture.intermediate_size = 32;
    c.architecture.num_hidden_layers = 1;
    c.architecture.num_attention_heads = c.architecture.num_key_value_heads = 2;
    // More rows than tokens, as many models have: another teacher's may be others.
    if (!tokenizer.empty()) c.architecture.vocab_size = 300;
    c.vocab_size = 280;
    c.tokenizer = tokenizer;
    c.datasets = {{.path = directory_->at(text)}};
    c.output_dir = directory_->at(output);
    c.sequence_len = 32;
    c.optimizer.learning_rate = 1e-2;
    c.validation_split_ratio = 0;
    c.max_steps = steps;
    c.report_to = {};
    return LanguageTrainer(c).run().model_directory;
  }

  static TrainConfig config(const std::string& output, const std::vector<std::string>& changes,
                            const std::string& model = student_) {
    Config yaml = Config::parse("base_model: " + model + "\noutput_dir: " + directory_->at(output) +
                                "\ndatasets: [{path: " + directory_->at("text.txt") +
                                "}]\nsequence_len: 32\nmicro_batch_size: 8\ngradient_accumulation_steps: 2\n"
                                "max_steps: 4\nlearning_rate: 0.01\nval_set_size: 0\ncache_dir: " +
                                directory_->at("cache") + "\n");
    for (const std::string& change : changes) yaml.set(change);
    return read_train_config(yaml);
  }
  static std::string teacher(const std::string& path = teacher_) { return "kd_teacher=" + path; }
  // Of the steps of a run that writes nothing.
  static std::vector<double> losses(const TrainConfig& config) {
    const auto alone = dist::alone();
    LanguageTask task(config, std::nullopt, {}, *alone);
    std::vector<double> all;
    for (std::int64_t step = 0; step < config.max_steps; ++step) {
      const StepWork work = task.gradients(step, {});
      StepRecord record;
      task.read(work.metrics.to_vector<float>(), record);
      task.optimizer().apply(step, work.grad_scale);
      all.push_back(record.loss);
    }
    return all;
  }
  static void expect_same(const std::vector<double>& ours, const std::vector<double>& theirs) {
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 2e-5) << i;
  }

  inline static std::unique_ptr<test::TemporaryDirectory> directory_;
  inline static std::string teacher_, student_, stranger_;
};

TEST_F(DistillationTest, TheStudentComesNearItsTeacher) {
  for (const char* beta : {"0", "0.5", "1"}) {
    const auto all = losses(
        config(std::string("near-") + beta, {teacher(), std::string("kd_beta=") + beta, "max_steps=8"}));
    EXPECT_LT(all.back(), 0.7 * all.front()) << beta;
  }
}

TEST_F(DistillationTest, AModelThatIsItsOwnTeacherHasNothingToLearn) {
  for (const char* beta : {"0", "0.3", "1"})
    EXPECT_NEAR(losses(config(std::string("own-") + beta,
                              {teacher(), std::string("kd_beta=") + beta, "kd_temperature=2", "max_steps=1"},
                              teacher_))
                    .front(),
                0, 1e-5)
        << beta;
}

TEST_F(DistillationTest, WithoutItsTeachersPartItIsThePlainCrossEntropy) {
  expect_same(losses(config("hard", {teacher(), "kd_alpha=0", "kd_ce_alpha=1"})),
              losses(config("plain", {})));
}

TEST_F(DistillationTest, TheSquareOfTheTemperatureAndTheWeightsScaleTheLoss) {
  const auto first = [](const std::string& output, const std::vector<std::string>& changes) {
    std::vector<std::string> all{teacher(), "max_steps=1"};
    all.insert(all.end(), changes.begin(), changes.end());
    return losses(config(output, all)).front();
  };
  const double soft = first("soft", {}), hard = first("plain-1", {"kd_alpha=0", "kd_ce_alpha=1"});
  EXPECT_NEAR(first("mixed", {"kd_alpha=0.25", "kd_ce_alpha=2"}), 0.25 * soft + 2 * hard, 1e-5);
  // Hot distributions differ by about 1/T² as much, which the square makes up for.
  const double hot = first("hot", {"kd_temperature=20"}), hotter = first("hotter", {"kd_temperature=40"});
  EXPECT_NEAR(hot / hotter, 1, 0.1);
}

TEST_F(DistillationTest, AllTokensCapturedAreTheTeacherItself) {
  const TrainConfig live = config("live", {teacher(), "kd_temperature=2", "kd_ce_alpha=0.5"});
  const std::string captured = directory_->at("captured");
  const CaptureInfo info = capture_logprobs(live, captured, 280);
  EXPECT_EQ(info.classes, 280);  // which both models have
  EXPECT_GT(info.sequences, 10);
  // More than an epoch, whose sequences come in another order each time.
  expect_same(losses(config("from-file", {"kd_logprobs=" + captured, "kd_temperature=2", "kd_ce_alpha=0.5"})),
              losses(live));
}

TEST_F(DistillationTest, AFewTokensCapturedAreEnoughToLearnFrom) {
  const std::string captured = directory_->at("captured-8");
  capture_logprobs(config("capture-8", {teacher()}), captured, 8);
  const auto all = losses(config("few", {"kd_logprobs=" + captured, "max_steps=8"}));
  EXPECT_LT(all.back(), 0.8 * all.front());
}

TEST_F(DistillationTest, ATeacherOfOtherTokensIsRefusedWithTheFirstOfThem) {
  const std::string message =
      message_of<Error>([] { LanguageTrainer trainer(config("strange", {teacher(stranger_)})); });
  for (const char* part : {"kd_teacher", "stranger", "another vocabulary", "tokens differ"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST_F(DistillationTest, WhatWasCapturedOfOtherDataIsRefused) {
  const std::string captured = directory_->at("captured-other");
  capture_logprobs(config("capture-other", {teacher(), "sequence_len=48"}), captured, 4);
  const auto refusal = [&](const std::vector<std::string>& more) {
    std::vector<std::string> changes{"kd_logprobs=" + captured};
    changes.insert(changes.end(), more.begin(), more.end());
    return message_of<Error>([&] { losses(config("other-data", changes)); });
  };
  EXPECT_NE(refusal({}).find("captured of other data"), std::string::npos) << refusal({});
  const std::string path = captured + "/logprobs-00001.safetensors";
  std::filesystem::resize_file(path, 200);
  EXPECT_NE(refusal({"sequence_len=48"}).find("logprobs-00001"), std::string::npos);
  std::filesystem::remove(captured + "/capture.json");
  EXPECT_NE(refusal({"sequence_len=48"}).find("capture.json"), std::string::npos);
}

TEST_F(DistillationTest, TheMemoryPlanCountsTheTeacher) {
  const LanguageConfig model = planned_architecture(config("plan", {}));
  const MemoryPlan with = plan_memory(config("plan", {teacher()}), model),
                   without = plan_memory(config("plan", {}), model);
  EXPECT_GT(with.teacher, 10'000U);
  EXPECT_GT(with.total(), without.total() + with.teacher) << "its pass takes something, too";
}

TEST_F(DistillationTest, KeysThatDoNotFitNameThemselves) {
  const auto expect = [](const std::vector<std::string>& changes, const std::string& key,
                         const std::string& part) {
    const std::string message = message_of<InvalidConfig>([&] { config("refused", changes); });
    EXPECT_NE(message.find(key), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect({"kd_trainer=true"}, "kd_trainer", "kd_teacher");
  expect({"kd_temperature=2"}, "kd_temperature", "kd_teacher");
  expect({teacher(), "kd_logprobs=x"}, "kd_logprobs", "choose one");
  expect({"kd_logprobs=x", "kd_beta=0.5"}, "kd_beta", "kd_beta: 0");
  expect({teacher(), "kd_alpha=0"}, "kd_alpha", "nothing would be learned");
  expect({teacher(), "z_loss=0.1"}, "z_loss", "kd_ce_alpha");
  expect({teacher(), "kd_online_server_base_url=http://x"}, "kd_online_server_base_url", "kd_teacher");
  expect({teacher(), "kd_beta=2"}, "kd_beta", "2");
  EXPECT_EQ(config("accepted", {"kd_trainer=true", teacher(), "kd_normalize_topk=true"}).distillation.beta,
            0);
}

}  // namespace
}  // namespace ingot
