#include <cmath>

#include "bindings.h"
#include <nanobind/stl/unique_ptr.h>

#include "ingot/base/config.h"
#include "ingot/tune/open_space.h"
#include "ingot/tune/tuner.h"

namespace ingot::python {
namespace {

using namespace ingot::tune;

std::unique_ptr<Tuner> make_tuner(const std::string& space_yaml, const std::string& direction,
                                  const std::string& sampler, const std::string& pruner, std::uint64_t seed,
                                  std::int64_t trials, const std::string& study, const std::string& objective,
                                  const std::string& objectives) {
  Config goals = Config::parse(objectives, "directions");
  TunerOptions options{
      .space = {.open = space_yaml.empty()}, .trials = trials, .study = study, .objective = objective};
  if (!space_yaml.empty()) {
    Config file = Config::parse(space_yaml, "space");
    options.space = read_search_space(file.root());
    file.finish();
  }
  if (direction != "minimize" && direction != "maximize") {
    throw InvalidConfig("direction", "'" + direction + "' is neither minimize nor maximize");
  }
  options.direction = direction == "minimize" ? Direction::minimize : Direction::maximize;
  options.goals = read_goals(goals.root());
  goals.finish();
  options.sampler.type = sampler;
  options.sampler.seed = seed;
  options.pruner.type = pruner;
  return std::make_unique<Tuner>(std::move(options));
}

nb::object parsed(const std::string& json) { return nb::module_::import_("json").attr("loads")(json); }

nb::dict as_dict(const Tuner& tuner, const SearchSpace& space, const Trial& trial) {
  nb::dict result;
  result["number"] = trial.number;
  result["state"] = std::string(name(trial.state));
  result["params"] = parsed(space.to_json(trial.values));
  result["value"] = std::isnan(trial.value) ? nb::none() : nb::object(nb::float_(trial.value));
  if (!tuner.goals().empty()) {
    nb::dict values;
    for (std::size_t i = 0; i < trial.objectives.size(); ++i)
      values[tuner.goals()[i].name.c_str()] = trial.objectives[i];
    result["values"] = values;
  }
  nb::dict reports;
  for (const Report& report : trial.reports) reports[nb::int_(report.step)] = report.value;
  result["intermediate_values"] = reports;
  result["note"] = trial.note;
  return result;
}

nb::list as_list(Tuner& tuner, std::vector<Trial> (Tuner::*read)()) {
  std::vector<Trial> trials;
  SearchSpace space;
  {
    const nb::gil_scoped_release others;  // the file may be locked by another worker
    trials = (tuner.*read)();
    space = tuner.space();
  }
  nb::list result;
  for (const Trial& trial : trials) result.append(as_dict(tuner, space, trial));
  return result;
}

}  // namespace

void bind_tune(nb::module_& module) {
  nb::class_<Trial>(module, "_Trial")
      .def_ro("number", &Trial::number)
      .def_prop_ro("state", [](const Trial& self) { return std::string(name(self.state)); });
  nb::class_<Tuner>(module, "_Tuner")
      .def("suggest", &Tuner::suggest, ReleaseGil())
      .def(
          "params",
          [](const Tuner& self, const Trial& trial) {
            std::string json;
            {
              const nb::gil_scoped_release others;
              json = self.parameters(trial);
            }
            return parsed(json);
          },
          "trial"_a)
      .def(
          "choose",
          [](Tuner& self, Trial& trial, const std::string& name, const std::string& json) {
            self.choose(trial, parameter_from_json(name, json));
          },
          "trial"_a, "name"_a, "json"_a, ReleaseGil())
      .def("report", &Tuner::report, "trial"_a, "step"_a, "value"_a, ReleaseGil())
      .def("complete", nb::overload_cast<Trial&, const std::vector<double>&>(&Tuner::complete), "trial"_a,
           "values"_a, ReleaseGil())
      .def("prune", &Tuner::prune, "trial"_a, "why"_a, ReleaseGil())
      .def("fail", &Tuner::fail, "trial"_a, "why"_a, ReleaseGil())
      .def("put_back", &Tuner::put_back, ReleaseGil())
      .def("is_complete", &Tuner::is_complete, ReleaseGil())
      .def("trials", [](Tuner& self) { return as_list(self, &Tuner::trials); })
      .def("best_trials", [](Tuner& self) { return as_list(self, &Tuner::best_trials); })
      .def_prop_ro("goals", [](const Tuner& self) {
        nb::list names;
        for (const Goal& goal : self.goals()) names.append(goal.name);
        return names;
      });
  module.def("_make_tuner", make_tuner, "space"_a, "direction"_a, "sampler"_a, "pruner"_a, "seed"_a,
             "trials"_a, "study"_a, "objective"_a, "objectives"_a);
}

}  // namespace ingot::python
