#include <memory>

#include "bindings.h"
#include "one_at_a_time.h"
#include <nanobind/stl/unique_ptr.h>

#include "ingot/base/error.h"
#include "ingot/optim/clip.h"
#include "ingot/optim/optimizer.h"

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

std::vector<Group> groups_of(const nb::list& groups) {
  std::vector<Group> result;
  for (const nb::handle item : groups) {
    const auto group = nb::cast<nb::tuple>(item);
    result.push_back({nb::cast<std::vector<Tensor>>(group[0]), nb::cast<double>(group[1]),
                      nb::cast<std::optional<double>>(group[2])});
  }
  return result;
}

}  // namespace

void bind_optimizers(nb::module_& module) {
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
