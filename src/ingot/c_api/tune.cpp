#include "ingot/c_api/tune.h"

#include <mutex>

#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/json.h"
#include "ingot/c_api/inner/handles.h"
#include "ingot/tune/open_space.h"
#include "ingot/tune/tuner.h"

using namespace ingot;
using namespace ingot::c_api;

namespace ingot::c_api {

/// A study that its handle and its trials share.
struct StudyCore {
  explicit StudyCore(tune::TunerOptions options) : tuner(std::move(options)) {}
  std::mutex mutex;
  tune::Tuner tuner;
};

namespace {

tune::TunerOptions tuner_options(const char* space, const IngotStudyOptions* given) {
  IngotStudyOptions defaults{};
  const tune::TunerOptions usual;
  defaults.trials = usual.trials;
  defaults.lease_seconds = usual.lease_seconds;
  const auto o = options_or(given, defaults);
  tune::TunerOptions options;
  options.space.open = space == nullptr;
  if (space != nullptr) {
    Config file = Config::parse(space, "space");
    options.space = tune::read_search_space(file.root());
    file.finish();
  }
  if (o.objectives != nullptr) {
    INGOT_CHECK(o.direction == nullptr, InvalidConfig("direction", "is said by objectives; leave it NULL"));
    Config goals = Config::parse(o.objectives, "objectives");
    options.goals = tune::read_goals(goals.root());
    goals.finish();
  }
  const std::string direction = o.direction == nullptr ? "minimize" : o.direction;
  INGOT_CHECK(direction == "minimize" || direction == "maximize",
              InvalidConfig("direction", "'" + direction + "' is neither minimize nor maximize"));
  options.direction = direction == "minimize" ? tune::Direction::minimize : tune::Direction::maximize;
  if (o.sampler != nullptr) options.sampler.type = o.sampler;
  if (o.pruner != nullptr) options.pruner.type = o.pruner;
  options.sampler.seed = o.seed;
  options.trials = o.trials;
  options.study = string_or_empty(o.path);
  options.objective = string_or_empty(o.objective);
  options.lease_seconds = o.lease_seconds;
  options.validate();
  return options;
}

}  // namespace
}  // namespace ingot::c_api

struct IngotStudy : Object {
  static constexpr const char* kName = "study";
  explicit IngotStudy(tune::TunerOptions options) : core(std::make_shared<StudyCore>(std::move(options))) {}
  const std::shared_ptr<StudyCore> core;
};

struct IngotTrial : Object {
  static constexpr const char* kName = "trial";
  IngotTrial(std::shared_ptr<StudyCore> c, tune::Trial t) : core(std::move(c)), trial(std::move(t)) {}
  const std::shared_ptr<StudyCore> core;
  tune::Trial trial;
};

namespace ingot::c_api {
namespace {

std::string front_json(tune::Tuner& tuner) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const tune::Trial& trial : tuner.best_trials()) {
    Json values = Json::object();
    for (std::size_t i = 0; i < trial.objectives.size(); ++i)
      values[tuner.goals().empty() ? "value" : tuner.goals()[i].name] = trial.objectives[i];
    list.push_back({{"number", trial.number},
                    {"params", Json::parse(tuner.space().to_json(trial.values))},
                    {"values", values}});
  }
  return dump_json(list);
}

/// Runs `body` with a trial that still runs.
template <class Body>
void with_running(IngotTrial* handle, const Body& body) {
  const auto t = object_of(handle);
  const std::lock_guard lock(t->core->mutex);
  INGOT_CHECK(t->trial.state == tune::TrialState::running,
              InvalidConfig("trial", "has ended: it is " + std::string(name(t->trial.state))));
  body(t->core->tuner, t->trial);
}

}  // namespace
}  // namespace ingot::c_api

extern "C" {

IngotStatus ingot_study_options(IngotStudyOptions* options, size_t size) {
  return call(__func__, [&] {
    IngotStudyOptions defaults{};
    const tune::TunerOptions usual;
    defaults.trials = usual.trials;
    defaults.lease_seconds = usual.lease_seconds;
    fill_options(options, size, defaults);
  });
}

IngotStatus ingot_study_open(const char* space, const IngotStudyOptions* options, IngotStudy** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    made = open_handle(std::make_shared<IngotStudy>(tuner_options(space, options)));
  });
}

IngotStatus ingot_study_close(IngotStudy* study) {
  return call(__func__, [&] {
    if (study == nullptr) return;
    const auto s = object_of(study);
    close_handle(study);
    const std::lock_guard lock(s->core->mutex);
    s->core->tuner.put_back();
  });
}

IngotStatus ingot_study_ask(IngotStudy* study, IngotTrial** out) {
  return call(__func__, [&] {
    auto& made = result(out, "out");
    const auto core = object_of(study)->core;
    const std::lock_guard lock(core->mutex);
    std::optional<tune::Trial> trial = core->tuner.suggest();
    if (trial) made = open_handle(std::make_shared<IngotTrial>(core, std::move(*trial)));
  });
}

IngotStatus ingot_study_is_complete(IngotStudy* study, int32_t* complete) {
  return call(__func__, [&] {
    auto& shown = result(complete, "complete");
    const auto core = object_of(study)->core;
    const std::lock_guard lock(core->mutex);
    shown = core->tuner.is_complete() ? 1 : 0;
  });
}

IngotStatus ingot_study_best(IngotStudy* study, char** params, int64_t* number, double* value) {
  return call(__func__, [&] {
    auto& made = result(params, "params");
    const auto core = object_of(study)->core;
    const std::lock_guard lock(core->mutex);
    const std::optional<tune::Trial> best = core->tuner.best_trial();
    if (!best) return;
    if (number != nullptr) *number = best->number;
    if (value != nullptr) *value = best->value;
    made = give_text(core->tuner.space().to_json(best->values));
  });
}

IngotStatus ingot_study_front(IngotStudy* study, char** trials) {
  return call(__func__, [&] {
    auto& made = result(trials, "trials");
    const auto core = object_of(study)->core;
    const std::lock_guard lock(core->mutex);
    made = give_text(front_json(core->tuner));
  });
}

IngotStatus ingot_trial_number(const IngotTrial* trial, int64_t* number) {
  return call(__func__, [&] {
    auto& shown = result(number, "number");
    shown = object_of(trial)->trial.number;
  });
}

IngotStatus ingot_trial_params(const IngotTrial* trial, char** params) {
  return call(__func__, [&] {
    auto& made = result(params, "params");
    const auto t = object_of(trial);
    const std::lock_guard lock(t->core->mutex);
    made = give_text(t->core->tuner.parameters(t->trial));
  });
}

IngotStatus ingot_trial_value(const IngotTrial* trial, const char* name, double* value) {
  return call(__func__, [&] {
    auto& shown = result(value, "value");
    const auto t = object_of(trial);
    const std::string wanted = string_arg(name, "name");
    const tune::SearchSpace space = t->core->tuner.space();
    const std::vector<tune::Parameter>& parameters = space.parameters;
    const std::lock_guard lock(t->core->mutex);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].name != wanted) continue;
      // Other trials may have added parameters since this one asked for its last.
      shown = i < t->trial.values.size() ? t->trial.values[i] : tune::kAbsent;
      return;
    }
    // Whether other trials have asked for the name makes no difference to this one.
    if (!space.open)
      throw InvalidArgument("name", "is '" + wanted + "', which is not a parameter of the space");
    shown = tune::kAbsent;
  });
}

IngotStatus ingot_trial_suggest(IngotTrial* trial, const char* name, const char* parameter, double* value) {
  return call(__func__, [&] {
    auto& shown = result(value, "value");
    const tune::Parameter asked =
        tune::parameter_from_json(string_arg(name, "name"), string_arg(parameter, "parameter"));
    with_running(trial, [&](tune::Tuner& tuner, tune::Trial& t) { shown = tuner.choose(t, asked); });
  });
}

IngotStatus ingot_trial_report(IngotTrial* trial, int64_t step, double value, int32_t* pruned) {
  return call(__func__, [&] {
    auto& ended = result(pruned, "pruned");
    with_running(trial,
                 [&](tune::Tuner& tuner, tune::Trial& t) { ended = tuner.report(t, step, value) ? 1 : 0; });
  });
}

IngotStatus ingot_trial_complete(IngotTrial* trial, double value) {
  return call(__func__, [&] {
    with_running(trial, [&](tune::Tuner& tuner, tune::Trial& t) { tuner.complete(t, value); });
  });
}

IngotStatus ingot_trial_complete_all(IngotTrial* trial, const double* values, size_t count) {
  return call(__func__, [&] {
    const auto given = array_arg(values, count, "values");
    with_running(trial, [&](tune::Tuner& tuner, tune::Trial& t) {
      tuner.complete(t, std::vector<double>(given.begin(), given.end()));
    });
  });
}

IngotStatus ingot_trial_prune(IngotTrial* trial, const char* why) {
  return call(__func__, [&] {
    with_running(trial, [&](tune::Tuner& tuner, tune::Trial& t) { tuner.prune(t, string_or_empty(why)); });
  });
}

IngotStatus ingot_trial_fail(IngotTrial* trial, const char* why) {
  return call(__func__, [&] {
    with_running(trial, [&](tune::Tuner& tuner, tune::Trial& t) { tuner.fail(t, string_or_empty(why)); });
  });
}

IngotStatus ingot_trial_close(IngotTrial* trial) {
  return call(__func__, [&] {
    if (trial == nullptr) return;
    const auto t = object_of(trial);
    close_handle(trial);
    const std::lock_guard lock(t->core->mutex);
    if (t->trial.state != tune::TrialState::running) return;
    try {
      t->core->tuner.fail(t->trial, "closed without a value");
    } catch (
        const tune::TrialLost&) {  // NOLINT(bugprone-empty-catch): the study was closed, or another has it
    }
  });
}

}  // extern "C"
