// What a run tells of the routers of a mixture, and the losses that keep them in order.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/train/cuda/training_run.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/models/language/family.h"
#include "ingot/train/language/language_trainer.h"

namespace ingot {
namespace {

class RouterMetrics : public test::TrainingRun {
 protected:
  TrainConfig mixture(const std::string& output) const {
    TrainConfig c = config("cpu", output);
    c.architecture.model_type = "qwen3_moe";
    apply_family(c.architecture);
    c.architecture.num_hidden_layers = 3;
    c.architecture.num_experts = 4;
    c.architecture.num_experts_per_tok = 2;
    c.architecture.moe_intermediate_size = 16;
    c.architecture.mlp_only_layers = {1};
    c.max_steps = 4;
    return c;
  }
  static double value(const StepRecord& record, const std::string& name) {
    const auto found = std::ranges::find(record.values, name, &NamedValues::value_type::first);
    return found == record.values.end() ? -1 : found->second;
  }
};

TEST_F(RouterMetrics, AreToldByLayerAndAsMeansAndAreThereAgainWhenARunGoesOn) {
  TrainConfig c = mixture("run");
  c.report_to = {"jsonl", "html", "tensorboard"};
  c.max_steps = 2;
  LanguageTrainer(c).run();
  c.max_steps = 4;
  c.resume_from_checkpoint = true;
  LanguageTrainer trainer(c);
  trainer.run();
  ASSERT_EQ(trainer.history().steps().size(), 4U);
  for (const StepRecord& step : trainer.history().steps()) {
    for (const char* name :
         {"router/aux_loss", "router/z_loss", "router/imbalance", "router/entropy", "router/unused"}) {
      const auto found = std::ranges::find(step.by_layer, name, &LayerValues::value_type::first);
      ASSERT_NE(found, step.by_layer.end()) << name << " of step " << step.step;
      ASSERT_EQ(found->second.size(), 2U) << "layer 1 has no experts";
      EXPECT_DOUBLE_EQ(value(step, name), (found->second[0] + found->second[1]) / 2) << name;
    }
    EXPECT_GE(value(step, "router/imbalance"), 1);
    EXPECT_LE(value(step, "router/imbalance"), 2)
        << "half of the pairs at most, as each token has two experts";
    EXPECT_GE(value(step, "router/entropy"), 0.5);
    EXPECT_LE(value(step, "router/entropy"), 1 + 1e-9);
    EXPECT_NEAR(value(step, "router/aux_loss"), 2, 0.5) << "two where all are used alike";
    EXPECT_GT(value(step, "router/z_loss"), 0);
  }
  const std::string metrics = read_file(c.output_dir + "/metrics.jsonl");
  EXPECT_NE(metrics.find(R"("layers":["layers.0","layers.2"])"), std::string::npos);
  const std::string report = read_file(c.output_dir + "/report.html");
  for (const char* part : {"Layers in step 4", "layers.2", "most of a layer", "mean of the layers"})
    EXPECT_NE(report.find(part), std::string::npos) << part;
}

TEST_F(RouterMetrics, AModelWithoutExpertsHasNone) {
  TrainConfig c = config("cpu", "dense");
  c.max_steps = 1;
  LanguageTrainer trainer(c);
  trainer.run();
  EXPECT_TRUE(trainer.history().steps().front().values.empty());
  EXPECT_TRUE(trainer.history().steps().front().by_layer.empty());
}

TEST_F(RouterMetrics, TheZLossIsThatOfAllTokensInChunksTooAndMakesLogitsSmaller) {
  const auto run = [&](const std::string& output, double weight, std::int64_t accumulate,
                       std::int64_t chunk) {
    TrainConfig c = mixture(output);
    c.router_z_loss_coef = weight;
    c.router_aux_loss_coef = 0;
    c.per_device_train_batch_size = 4 / accumulate;
    c.gradient_accumulation_steps = accumulate;
    c.mlp_chunk = chunk;
    c.max_steps = 8;  // whole batches of one epoch
    c.optimizer.name = "sgd";
    c.optimizer.learning_rate = 0.05;
    LanguageTrainer trainer(c);
    trainer.run();
    return trainer.history().steps();
  };
  const auto whole = run("whole", 0.5, 1, 0), parts = run("parts", 0.5, 4, 0),
             chunks = run("chunks", 0.5, 1, 24), without = run("without", 0, 1, 0);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(chunks[i].loss, whole[i].loss, 1e-4) << i;
  EXPECT_NEAR(whole[0].loss - without[0].loss, 0.5 * value(whole[0], "router/z_loss"), 1e-4);
  EXPECT_NEAR(value(parts[0], "router/z_loss"), value(whole[0], "router/z_loss"), 1e-5);
  EXPECT_NEAR(value(parts[0], "router/aux_loss"), value(whole[0], "router/aux_loss"), 1e-5);
  EXPECT_LT(value(whole.back(), "router/z_loss"), value(without.back(), "router/z_loss"));
}

}  // namespace
}  // namespace ingot
