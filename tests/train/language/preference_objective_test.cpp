// Losses, metrics and gradients of trl's trainers (tools/goldens/preference_losses.py).
#include "ingot/train/language/preference_objective.h"

#include <numeric>

#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/thread_ranks.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/shuffle.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/adapter/peft.h"
#include "ingot/models/language/model_directory.h"
#include "ingot/ops/reduce.h"
#include "ingot/ops/view.h"
#include "ingot/text/bpe_trainer.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;
using Ids = std::vector<std::int32_t>;

const Json& preference_goldens() {
  static const Json all = [] {
    const std::string path = test::source_dir() + "/tests/train/language/preference_goldens.json";
    return parse_json<Json>(read_file(path), path);
  }();
  return all;
}

ObjectiveConfig objective_of(const std::string& name) {
  ObjectiveConfig o{.kind = ObjectiveKind::dpo, .beta = 0.3};
  if (name == "dpo_hinge") o.dpo_loss = DpoLoss::hinge;
  if (name == "dpo_robust") {
    o.dpo_loss = DpoLoss::robust;
    o.label_smoothing = 0.2;
  }
  if (name == "ipo") o.kind = ObjectiveKind::ipo;
  if (name == "orpo") o = {.kind = ObjectiveKind::orpo, .beta = 0.4};
  if (name == "simpo") o = {.kind = ObjectiveKind::simpo, .beta = 0.7, .label_smoothing = 0.1};
  if (name == "simpo_alone") o = {.kind = ObjectiveKind::simpo, .beta = 0.7, .cpo_alpha = 0};
  if (name.starts_with("kto")) o.kind = ObjectiveKind::kto;
  if (name == "kto") {
    o.desirable_weight = 0.8;
    o.undesirable_weight = 1.5;
  }
  return o;
}

// Rows as preference_encoder lays them.
class Rows {
 public:
  void add_pair(const Ids& prompt, const Ids& chosen, const Ids& rejected) {
    add(prompt, chosen);
    add(prompt, rejected);
    end();
  }
  void add_verdict(const Ids& prompt, const Ids& completion, bool label) {
    trained_.push_back(!label);
    trained_.insert(trained_.end(), prompt.size() - 1, false);
    trained_.insert(trained_.end(), completion.size(), true);
    tokens_.insert(tokens_.end(), prompt.begin(), prompt.end());
    tokens_.insert(tokens_.end(), completion.begin(), completion.end());
    end();
  }
  data::DocumentSet documents() const {
    return data::DocumentSet::all(std::make_shared<data::TokenStore>(tokens_, ends_, 61, "rows", trained_));
  }

 private:
  void add(const Ids& prompt, const Ids& answer) {
    tokens_.insert(tokens_.end(), prompt.begin(), prompt.end());
    tokens_.insert(tokens_.end(), answer.begin(), answer.end());
    trained_.insert(trained_.end(), prompt.size(), false);
    trained_.insert(trained_.end(), answer.size(), true);
  }
  void end() { ends_.push_back(std::ssize(tokens_)); }

  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> ends_;
  std::vector<bool> trained_;
};

class PreferenceGolden : public ::testing::TestWithParam<const char*> {
 protected:
  PreferenceGolden() {
    config_.objective = objective_of(GetParam());
    config_.samples.preferences = data_.preferences = config_.objective.preferences();
    config_.adapter.enabled = true;
    config_.per_device_train_batch_size = 3;
    config_.sequence_len = 16;
    config_.optimizer.max_grad_norm = 0;
    model_ = make_model();
    data_.train_documents = data_.validation_documents = rows().documents();
  }

  std::unique_ptr<LanguageModel> make_model() {
    const std::string goldens = test::source_dir() + "/tests/models/goldens/";
    auto model = load_language_model(goldens + "llama_bias_untied", {.trainable = false});
    const WeightMap map = LanguageModel::weight_map(model->config);
    const LoraConfig lora = read_peft_adapter({*model, map}, goldens + "lora/llama");
    train_adapter_only({*model, map}, lora);
    config_.adapter.lora = lora;
    return model;
  }

  // So that an epoch gives them in the golden's order, which KTO's batches depend on.
  Rows rows() const {
    const bool far = std::string(GetParam()) == "kto_far";
    const bool pairs = *data_.preferences == data::PreferenceKind::pair;
    const Json& list = preference_goldens()[pairs ? "pairs" : far ? "far_verdicts" : "verdicts"];
    const Permutation order(list.size(), config_.seed, 0);
    std::vector<Json> laid(list.size());
    for (std::uint64_t i = 0; i < list.size(); ++i) laid[order(i)] = list[i];
    Rows rows;
    for (const Json& row : laid) {
      const Ids prompt = row[0].get<Ids>(), answer = row[1].get<Ids>();
      if (pairs)
        rows.add_pair(prompt, answer, row[2].get<Ids>());
      else
        rows.add_verdict(prompt, answer, row[2].get<bool>());
    }
    return rows;
  }

  StepRecord step() { return step(*model_, dist::world(), evaluated_, evaluated_metrics_); }

  StepRecord step(LanguageModel& model, dist::Communicator& ranks, std::optional<double>& evaluated,
                  NamedValues& evaluated_metrics) const {
    const std::unique_ptr<ReferenceModel> reference =
        config_.objective.has_reference() ? std::make_unique<ReferenceModel>(config_, model) : nullptr;
    TrainOptimizer optimizer(model, config_.optimizer, make_schedule({.total_steps = 1}));
    PreferenceObjective objective({.config = config_,
                                   .data = data_,
                                   .model = model,
                                   .tokenizer = tokenizer_,
                                   .reference = reference.get(),
                                   .optimizer = optimizer,
                                   .communicator = ranks});
    StepRecord record;
    const StepWork work = objective.gradients(0, {});
    objective.read(work.metrics.to_vector<float>(), record);
    evaluated = objective.evaluate({});
    EvalRecord evaluation;
    objective.read_evaluation(evaluation);
    evaluated_metrics = evaluation.values;
    return record;
  }

  const Json& golden_ = preference_goldens()["cases"][GetParam()];
  TrainConfig config_;
  TrainingData data_;
  std::unique_ptr<LanguageModel> model_;
  text::Tokenizer tokenizer_ = text::train_bpe({.vocab_size = 257}, std::vector<std::string_view>{"a"});
  std::optional<double> evaluated_;
  NamedValues evaluated_metrics_;
};

TEST_P(PreferenceGolden, LossMetricsAndGradientsAreTrls) {
  const StepRecord record = step();
  EXPECT_NEAR(record.loss, golden_["loss"].get<double>(), 2e-6);
  EXPECT_NEAR(record.grad_norm, golden_["norm"].get<double>(), 2e-5);
  std::map<std::string, double> metrics(record.values.begin(), record.values.end());
  for (const auto& [name, value] : golden_["metrics"].items())
    if (name != "nll_loss" || value != 0) {
      ASSERT_TRUE(metrics.contains(name)) << name;
      EXPECT_NEAR(metrics[name], value.get<double>(), 2e-5) << name;
    }
  std::size_t seen = 0;
  for (const Parameter* parameter : parameters(*model_)) {
    if (!parameter->trainable()) continue;
    std::string peft = parameter->name;  // "...q_proj.default.lora_A"
    if (const std::size_t at = peft.find(".default"); at != peft.npos) peft.erase(at, 8).append(".default");
    const auto found = golden_["grads"].find(peft);
    if (found == golden_["grads"].end()) continue;
    ++seen;
    const std::vector<float> ours = parameter->grad().to_vector<float>();
    const auto theirs = found->get<std::vector<float>>();
    ASSERT_EQ(ours.size(), theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-5) << parameter->name;
  }
  EXPECT_EQ(seen, golden_["grads"].size());
}

// KTO's kl depends on which answers meet, so its evaluation is another batch than the step's.
class PairGolden : public PreferenceGolden {};

TEST_P(PairGolden, EvaluationGivesTheSameNumbers) {
  const StepRecord record = step();
  EXPECT_NEAR(*evaluated_, record.loss, 1e-6);
  ASSERT_EQ(evaluated_metrics_.size(), record.values.size());
  for (std::size_t i = 0; i < record.values.size(); ++i)
    EXPECT_NEAR(evaluated_metrics_[i].second, record.values[i].second, 1e-5) << record.values[i].first;
}

TEST_P(PairGolden, MicroBatchesOfAStepAddUp) {
  const double whole = step().loss;
  config_.per_device_train_batch_size = 1;
  config_.gradient_accumulation_steps = 3;
  EXPECT_NEAR(step().loss, whole, 1e-6);
}

TEST_P(PairGolden, RanksHaveTheGradientsAndMetricsOfOneProcess) {
  config_.per_device_train_batch_size = 1;
  config_.ordered_gradients = true;
  config_.gradient_accumulation_steps = 3;
  const StepRecord alone = step();
  const auto gradients = [](LanguageModel& model) {
    std::map<std::string, std::vector<float>> all;
    for (const Parameter* p : parameters(model))
      if (p->grad().defined()) all[p->name] = p->grad().to_vector<float>();
    return all;
  };
  config_.gradient_accumulation_steps = 1;
  std::vector<std::unique_ptr<LanguageModel>> models;
  for (int i = 0; i < 3; ++i) models.push_back(make_model());
  test::ThreadRanks(3).run([&](dist::Communicator& ranks) {
    LanguageModel& model = *models[static_cast<std::size_t>(ranks.rank())];
    std::optional<double> evaluated;
    NamedValues evaluated_metrics;
    const StepRecord record = step(model, ranks, evaluated, evaluated_metrics);
    EXPECT_TRUE(gradients(model) == gradients(*model_)) << ranks.rank();
    EXPECT_NEAR(record.loss, alone.loss, 1e-6);
    EXPECT_EQ(record.grad_norm, alone.grad_norm);
    EXPECT_EQ(evaluated, evaluated_);
    if (ranks.is_first()) EXPECT_EQ(evaluated_metrics, evaluated_metrics_);
  });
}

INSTANTIATE_TEST_SUITE_P(Trl, PreferenceGolden,
                         ::testing::Values("dpo", "dpo_hinge", "dpo_robust", "ipo", "orpo", "simpo",
                                           "simpo_alone", "kto", "kto_far"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Trl, PairGolden, ::testing::Values("dpo", "simpo_alone"),
                         [](const auto& info) { return std::string(info.param); });

testing::OpCase loss_case(const std::string& name) {
  const auto op = [name](std::span<const Tensor> x) {
    const ObjectiveConfig o = objective_of(name);
    if (o.kind == ObjectiveKind::kto)
      return verdict_loss(o, {.answers = x[0],
                              .reference = x[1],
                              .mismatched = x[2],
                              .reference_mismatched = x[3],
                              .desirable = x[4]})
          .loss;
    return pair_loss(o, {.chosen = x[0],
                         .rejected = x[1],
                         .reference_chosen = x[2],
                         .reference_rejected = x[3],
                         .chosen_length = x[4],
                         .rejected_length = x[4],
                         .nll = mean(x[0])})
        .loss;
  };
  const auto negative = [](double x) { return -3 - x * 0.5; };
  const auto label = [](double x) { return x > 0 ? 1.0 : 0.0; };
  const auto length = [](double x) { return x > 0 ? 2.0 : 3.0; };
  const bool kto = name.starts_with("kto");
  return {.name = name,
          .op = op,
          .inputs = {{.shape = {4}, .values = negative},
                     {.shape = {4}, .differentiable = !kto, .values = negative},
                     {.shape = {4}, .differentiable = false, .values = negative},
                     {.shape = {4}, .differentiable = false, .values = negative},
                     {.shape = {4}, .differentiable = false, .values = kto ? std::function(+label) : length}},
          .half_tolerance = 0};
}

TEST(PreferenceLoss, GradientsAreThoseOfFiniteDifferences) {
  for (const char* name : {"dpo", "dpo_hinge", "dpo_robust", "ipo", "orpo", "simpo", "kto"}) {
    SCOPED_TRACE(name);
    testing::check_op(loss_case(name));
  }
}

TEST(PreferenceLoss, AlmostCertainAnswersKeepOrpoFinite) {
  const auto of = [](float chosen) {
    const Tensor length = Tensor::from<float>({1}, {1});
    return pair_loss({.kind = ObjectiveKind::orpo}, {.chosen = Tensor::from<float>({chosen}, {1}),
                                                     .rejected = Tensor::from<float>({-4}, {1}),
                                                     .chosen_length = length,
                                                     .rejected_length = length,
                                                     .nll = Tensor::scalar(0)})
        .loss.item();
  };
  // log-odds of 1e-6 below certainty: log(1/1e-6) + 4 - e^-4 in the exponent.
  EXPECT_NEAR(of(-1e-6F), 0.1 * std::log1p(std::exp(-(13.8155 + 4 - 0.0185))), 1e-9);
}

}  // namespace
}  // namespace ingot
