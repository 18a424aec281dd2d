// Equality with PyTorch and transformers, step by step. tools/goldens/optim_goldens.py writes the files.
#include <cmath>
#include <memory>

#include "tests/support/source_dir.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/muon.h"
#include "ingot/optim/optimizer.h"
#include "ingot/optim/schedule.h"

namespace ingot {
namespace {

using nlohmann::json;

json golden(const std::string& name) {
  const std::string path = test::source_dir() + "/tests/optim/goldens/" + name + ".json";
  return parse_json<json>(read_file(path), path);
}

std::unique_ptr<Optimizer> make_optimizer(const json& c, const std::vector<Parameter*>& parameters) {
  const json& o = c.at("options");
  const double lr = o.at("lr");
  if (c.at("kind") == "SGD") {
    return std::make_unique<Sgd>(parameters, SgdConfig{.learning_rate = lr,
                                                       .momentum = o.value("momentum", 0.0),
                                                       .dampening = o.value("dampening", 0.0),
                                                       .nesterov = o.value("nesterov", false),
                                                       .weight_decay = o.value("weight_decay", 0.0)});
  }
  if (c.at("kind") == "Muon" || c.at("kind") == "NorMuon") {
    return std::make_unique<Muon>(parameters, MuonConfig{.learning_rate = lr,
                                                         .weight_decay = o.value("weight_decay", 0.1),
                                                         .momentum = o.value("momentum", 0.95),
                                                         .nesterov = o.value("nesterov", true),
                                                         .match_adamw = o.contains("adjust_lr_fn"),
                                                         .normalize_rows = c.at("kind") == "NorMuon",
                                                         .row_beta = o.value("beta2", 0.95)});
  }
  const auto betas = o.value("betas", std::vector<double>{0.9, 0.999});
  if (c.at("kind") == "Adam") {
    return std::make_unique<Adam>(parameters, AdamConfig{.learning_rate = lr,
                                                         .beta1 = betas[0],
                                                         .beta2 = betas[1],
                                                         .eps = o.value("eps", 1e-8),
                                                         .weight_decay = o.value("weight_decay", 0.0)});
  }
  return std::make_unique<AdamW>(parameters, AdamWConfig{.learning_rate = lr,
                                                         .beta1 = betas[0],
                                                         .beta2 = betas[1],
                                                         .eps = o.value("eps", 1e-8),
                                                         .weight_decay = o.value("weight_decay", 0.01)});
}

Tensor tensor_of(const json& values, const Shape& shape) {
  return Tensor::from(values.get<std::vector<float>>(), shape);
}

TEST(OptimizerGolden, TwentyStepsEqualPyTorchs) {
  const json g = golden("optimizers");
  const Shape weight_shape{3, 5}, bias_shape{3};
  ASSERT_GE(g.at("cases").size(), 10U);
  for (const auto& [name, c] : g.at("cases").items()) {
    Parameter weight("weight", tensor_of(g["start"]["weight"], weight_shape), true, true);
    Parameter bias("bias", tensor_of(g["start"]["bias"], bias_shape), true, false);
    const std::vector<Parameter*> parameters = {&weight, &bias};
    const auto optimizer = make_optimizer(c, parameters);
    ASSERT_EQ(c.at("after").size(), 20U);
    for (std::size_t step = 0; step < 20; ++step) {
      weight.value.set_grad(tensor_of(g["gradients"][step]["weight"], weight_shape));
      bias.value.set_grad(tensor_of(g["gradients"][step]["bias"], bias_shape));
      StepOptions options;
      if (c.contains("max_norm")) {
        const ClippedNorm clipped = clip_by_global_norm(parameters, c.at("max_norm"));
        EXPECT_NEAR(clipped.norm.item(), c["norms"][step].get<double>(), 1e-6) << name << " step " << step;
        options.grad_scale = clipped.factor;
      }
      optimizer->step(options);
      for (const Parameter* p : parameters) {
        const auto expected = c["after"][step][p->name].get<std::vector<double>>();
        const auto actual = p->value.to_vector<float>();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(actual[i], expected[i], 1e-6 * std::max(1.0, std::abs(expected[i])))
              << name << " step " << step << " " << p->name << "[" << i << "]";
        }
      }
    }
  }
}

TEST(ScheduleGolden, RatesEqualPyTorchsAndTransformers) {
  using namespace schedule;  // NOLINT: a table of schedules
  const auto config = [](const char* type, double fraction = 0) {
    return make_schedule({.type = type,
                          .warmup_steps = 10,
                          .total_steps = 50,
                          .final_lr_fraction = fraction,
                          .cooldown_steps = 15,
                          .width = 64});
  };
  const std::map<std::string, LrSchedule> schedules = {
      {"constant", config("constant")},
      {"linear", config("linear")},
      {"cosine", config("cosine")},
      {"cosine_min", config("cosine", 0.1)},
      {"wsd", Warmup{10, Wsd{25, 15, 0.1}, 0.1}},  // transformers warms up from the final fraction
      {"wsd_to_zero", config("wsd")},
      {"cosine_restarts",
       make_schedule(
           {.type = "cosine_with_restarts", .warmup_steps = 10, .total_steps = 50, .num_cycles = 3})},
      {"polynomial", make_schedule({.type = "polynomial",
                                    .warmup_steps = 10,
                                    .total_steps = 50,
                                    .final_lr_fraction = 0.2,
                                    .power = 2})},
      {"inverse_sqrt", config("inverse_sqrt")},
      {"inverse_sqrt_slow",
       make_schedule({.type = "inverse_sqrt", .warmup_steps = 10, .total_steps = 50, .timescale = 30})},
      {"wsd_cosine", Warmup{10, Wsd{25, 15, 0, Wsd::Decay::cosine}}},
      {"wsd_linear", Warmup{10, Wsd{25, 15, 0, Wsd::Decay::linear}}},
      {"annealing", Cosine{40, 0.05}},
      {"exponential", Exponential{0.9}},
      {"step", Step{7, 0.5}},
      {"linear_lr", Warmup{10, Constant{}, 0.25}},
      {"noam", config("noam")},
      {"sequence", Sequence{{{Warmup{5, Constant{}, 0.2}, 5}, {Step{10, 0.5}, 25}, {Exponential{0.9}, 0}}}},
      {"product", Product{{Warmup{10, Constant{}, 0.25}, Exponential{0.95}}}},
  };
  const json g = golden("schedules");
  EXPECT_EQ(g.size(), schedules.size() + 1) << "every golden has its schedule, and made_with";
  for (const auto& [name, schedule] : schedules) {
    const auto expected = g.at(name).get<std::vector<double>>();
    for (std::size_t step = 0; step < expected.size(); ++step) {
      EXPECT_NEAR(schedule(static_cast<std::int64_t>(step)), expected[step], 1e-9)
          << name << " step " << step;
    }
  }
}

}  // namespace
}  // namespace ingot
