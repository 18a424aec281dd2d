#include <memory>

#include "bindings.h"
#include "one_at_a_time.h"
#include <nanobind/stl/function.h>
#include <nanobind/stl/unique_ptr.h>

#include "ingot/base/error.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/ema.h"
#include "ingot/optim/muon.h"
#include "ingot/optim/optimizer.h"
#include "ingot/optim/schedule.h"

namespace ingot::python {
namespace {

struct Group {
  std::vector<Tensor> parameters;
  double lr_multiplier = 1;
  std::optional<double> weight_decay;
};

// An optimizer of C++ over tensors of Python. Parameter and tensor share memory and gradient.
struct PythonOptimizer {
  OneAtATime turns;
  std::vector<std::unique_ptr<Parameter>> parameters;
  std::unique_ptr<Optimizer> optimizer;

  std::vector<ParamGroup> take(const std::vector<Group>& groups) {
    std::vector<ParamGroup> result;
    result.reserve(groups.size());
    for (const Group& group : groups) {
      ParamGroup taken{.lr_multiplier = group.lr_multiplier, .weight_decay = group.weight_decay};
      taken.parameters.reserve(group.parameters.size());
      for (const Tensor& tensor : group.parameters) {
        auto parameter = std::make_unique<Parameter>();
        parameter->name = std::to_string(parameters.size());
        parameter->value = tensor;
        if (!tensor.requires_grad() || !tensor.is_leaf()) {
          throw InvalidConfig("params",
                              "parameter " + parameter->name + " is not a leaf that requires a gradient");
        }
        taken.parameters.push_back(parameter.get());
        parameters.push_back(std::move(parameter));
      }
      result.push_back(std::move(taken));
    }
    return result;
  }
};

// Averages of a module's parameters, which share memory with its tensors.
struct PythonEma {
  OneAtATime turns;
  std::vector<std::unique_ptr<Parameter>> parameters;
  std::optional<Ema> ema;

  PythonEma(const std::map<std::string, Tensor>& named, const EmaConfig& config) {
    std::vector<Parameter*> all;
    all.reserve(named.size());
    parameters.reserve(named.size());
    for (const auto& [name, tensor] : named) {
      parameters.push_back(std::make_unique<Parameter>());
      parameters.back()->name = name;
      parameters.back()->value = tensor;
      all.push_back(parameters.back().get());
    }
    ema.emplace(std::move(all), config);
  }
};

std::unique_ptr<PythonOptimizer> make_muon(const std::vector<Tensor>& tensors, const MuonConfig& config,
                                           const std::vector<bool>& embeddings) {
  auto result = std::make_unique<PythonOptimizer>();
  std::vector<ParamGroup> taken = result->take({{.parameters = tensors}});
  for (std::size_t i = 0; i < embeddings.size(); ++i) taken[0].parameters[i]->embedding = embeddings[i];
  result->optimizer = std::make_unique<Muon>(taken[0].parameters, config);
  return result;
}

std::vector<Group> groups_of(const nb::list& groups) {
  std::vector<Group> result;
  for (const nb::handle item : groups) {
    const auto group = nb::cast<nb::tuple>(item);
    result.push_back({nb::cast<std::vector<Tensor>>(group[0]), nb::cast<double>(group[1]),
                      nb::cast<std::optional<double>>(group[2])});
  }
  return result;
}

void bind_muon(nb::module_& module) {
  module.def(
      "_muon",
      [](const std::vector<Tensor>& tensors, const std::vector<bool>& embeddings, double lr,
         double weight_decay, double momentum, bool nesterov, std::int64_t iterations, bool match_adamw,
         bool normalize_rows, double beta1, double beta2, double eps) {
        return make_muon(tensors,
                         {.learning_rate = lr,
                          .weight_decay = weight_decay,
                          .momentum = momentum,
                          .nesterov = nesterov,
                          .iterations = iterations,
                          .match_adamw = match_adamw,
                          .normalize_rows = normalize_rows,
                          .beta1 = beta1,
                          .beta2 = beta2,
                          .eps = eps},
                         embeddings);
      },
      "tensors"_a, "embeddings"_a, "lr"_a, "weight_decay"_a, "momentum"_a, "nesterov"_a, "iterations"_a,
      "match_adamw"_a, "normalize_rows"_a, "beta1"_a, "beta2"_a, "eps"_a);
}

void bind_ema(nb::module_& module) {
  nb::class_<PythonEma>(module, "_Ema")
      .def(
          "__init__",
          [](PythonEma* self, const std::map<std::string, Tensor>& named, double decay, bool warmup) {
            new (self) PythonEma(named, {.decay = decay, .warmup = warmup});
          },
          "named"_a, "decay"_a, "warmup"_a)
      .def(
          "update",
          [](PythonEma& self) {
            const OneAtATime::Turn turn(self.turns, "an average");
            self.ema->update();
          },
          ReleaseGil())
      .def(
          "swap",
          [](PythonEma& self) {
            const OneAtATime::Turn turn(self.turns, "an average");
            self.ema->swap();
          },
          ReleaseGil())
      .def("swapped", [](PythonEma& self) { return self.ema->swapped(); })
      .def("state",
           [](PythonEma& self) {
             const OneAtATime::Turn turn(self.turns, "an average");
             return self.ema->state();
           })
      .def(
          "load_state",
          [](PythonEma& self, const std::map<std::string, Tensor>& state) {
            const OneAtATime::Turn turn(self.turns, "an average");
            self.ema->load_state(state);
          },
          "state"_a);
}

void bind_schedules(nb::module_& module) {
  module.def(
      "_schedule",
      [](const std::string& type, std::int64_t total_steps, std::int64_t warmup_steps,
         double final_lr_fraction, std::int64_t cooldown_steps, double gamma, std::int64_t step_size,
         double num_cycles, double power, std::int64_t timescale) {
        return make_schedule({.type = type,
                              .warmup_steps = warmup_steps,
                              .total_steps = total_steps,
                              .final_lr_fraction = final_lr_fraction,
                              .cooldown_steps = cooldown_steps,
                              .gamma = gamma,
                              .step_size = step_size,
                              .num_cycles = num_cycles,
                              .power = power,
                              .timescale = timescale});
      },
      "type"_a, "total_steps"_a, "warmup_steps"_a, "final_lr_fraction"_a, "cooldown_steps"_a, "gamma"_a,
      "step_size"_a, "num_cycles"_a, "power"_a, "timescale"_a);
}

}  // namespace

void bind_optimizers(nb::module_& module) {
  bind_muon(module);
  bind_ema(module);
  bind_schedules(module);
  nb::class_<PythonOptimizer>(module, "_Optimizer")
      .def(
          "step",
          [](PythonOptimizer& self, double lr_scale) {
            const OneAtATime::Turn turn(self.turns, "an optimizer");
            self.optimizer->step({.lr_scale = lr_scale});
          },
          "lr_scale"_a = 1.0, ReleaseGil())
      .def("zero_grad",
           [](PythonOptimizer& self) {
             const OneAtATime::Turn turn(self.turns, "an optimizer");
             self.optimizer->zero_grad();
           })
      .def_prop_rw(
          "lr", [](const PythonOptimizer& self) { return self.optimizer->learning_rate(); },
          [](PythonOptimizer& self, double lr) {
            const OneAtATime::Turn turn(self.turns, "an optimizer");
            self.optimizer->set_learning_rate(lr);
          })
      .def("state",
           [](PythonOptimizer& self) {
             const OneAtATime::Turn turn(self.turns, "an optimizer");
             return self.optimizer->state();
           })
      .def(
          "load_state",
          [](PythonOptimizer& self, const std::map<std::string, Tensor>& state) {
            const OneAtATime::Turn turn(self.turns, "an optimizer");
            self.optimizer->load_state(state);
          },
          "state"_a)
      .def(
          "clip_grad_norm",
          [](PythonOptimizer& self, double most) {
            const OneAtATime::Turn turn(self.turns, "an optimizer");
            std::vector<Parameter*> all;
            all.reserve(self.parameters.size());
            for (const auto& parameter : self.parameters) all.push_back(parameter.get());
            return clip_grad_norm(all, most);
          },
          "max_norm"_a, ReleaseGil());
  module.def(
      "_adamw",
      [](const nb::list& groups, double lr, double beta1, double beta2, double eps, double weight_decay,
         bool decoupled, bool eight_bits) {
        auto result = std::make_unique<PythonOptimizer>();
        std::vector<ParamGroup> taken = result->take(groups_of(groups));
        if (decoupled) {
          result->optimizer = std::make_unique<AdamW>(
              std::move(taken), AdamWConfig{.learning_rate = lr,
                                            .beta1 = beta1,
                                            .beta2 = beta2,
                                            .eps = eps,
                                            .weight_decay = weight_decay,
                                            .moments = eight_bits ? DType::u8 : DType::f32});
        } else {
          result->optimizer =
              std::make_unique<Adam>(std::move(taken), AdamConfig{.learning_rate = lr,
                                                                  .beta1 = beta1,
                                                                  .beta2 = beta2,
                                                                  .eps = eps,
                                                                  .weight_decay = weight_decay});
        }
        return result;
      },
      "groups"_a, "lr"_a, "beta1"_a, "beta2"_a, "eps"_a, "weight_decay"_a, "decoupled"_a, "eight_bits"_a);
  module.def(
      "_sgd",
      [](const nb::list& groups, double lr, double momentum, double dampening, bool nesterov,
         double weight_decay) {
        auto result = std::make_unique<PythonOptimizer>();
        std::vector<ParamGroup> taken = result->take(groups_of(groups));
        result->optimizer = std::make_unique<Sgd>(std::move(taken), SgdConfig{.learning_rate = lr,
                                                                              .momentum = momentum,
                                                                              .dampening = dampening,
                                                                              .nesterov = nesterov,
                                                                              .weight_decay = weight_decay});
        return result;
      },
      "groups"_a, "lr"_a, "momentum"_a, "dampening"_a, "nesterov"_a, "weight_decay"_a);
}

}  // namespace ingot::python
