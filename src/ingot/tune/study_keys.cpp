#include "ingot/tune/study_keys.h"

#include <iterator>

namespace ingot::tune {
namespace {

using Table = ConfigTable<StudyConfig>;
using Field = Table::Field;

// Read in study_config.cpp, since they depend on each other.
Table::Section objective_keys() {
  return {
      "What is tried",
      {
          Field::documented(
              "train", "a path",
              {.doc =
                   "Configuration of `ingot train` whose keys the trials change. One of train, forecast and "
                   "command is there."}),
          Field::documented("forecast", "a path",
                            {.doc = "Configuration of `ingot forecast fit`, in place of train."}),
          Field::documented(
              "command", "text",
              {.doc = "A program, in place of train: {name} stands for a parameter's value, and "
                      "the last line of its output is the trial's value."}),
          Field::documented("set", "a list of text",
                            {.doc = "Changes to the configuration that all trials share: [max_steps=100]."}),
          Field::documented(
              "metric", "text",
              {.default_text = "the objective's own",
               .doc = "Of train validation_loss (its last) or best_validation_loss, of forecast "
                      "best_validation_loss, of a command a name in the JSON object that it writes."}),
          Field::documented("direction", "minimize or maximize",
                            {.default_text = "minimize", .doc = "Which way the metric is better."}),
          Field::documented(
              "objectives", "a mapping",
              {.doc = "Several metrics of a command, in place of direction and metric: {loss: minimize, "
                      "accuracy: maximize}."}),
          Field::documented("timeout_seconds", "a number, at least 0",
                            {.unit = "seconds",
                             .default_text = "0",
                             .doc = "A command that takes longer is ended and has failed; 0: never."}),
          Field::documented("space", "a mapping",
                            {.doc = "The parameters: {low, high}, {type: int, low, high} or {choices: "
                                    "[...]}, each with log, step and when where they are wanted."}),
      }};
}

Table::Section study_section() {
  constexpr auto t = &StudyConfig::tuner;
  return {
      "Study",
      {
          {"trials",
           t,
           &TunerOptions::trials,
           {.bounds = at_least(1), .doc = "How many in all; raise it to go on with a finished study."}},
          {"workers",
           &StudyConfig::workers,
           {.bounds = between(1, 1024),
            .doc = "Processes that run trials side by side; each gets its share of the processor's "
                   "threads, and of several GPUs one."}},
          Field::documented("study", "a path or a URL",
                            {.default_text = "<name>.db",
                             .doc = "The study's SQLite file, or postgresql://user@host/database."}),
          Field::documented("output_dir", "a path",
                            {.default_text = "<study>-trials",
                             .doc = "A directory and a log for each trial, the workers' logs, the report."}),
          {"keep",
           &StudyConfig::keep,
           {.choices = {"best", "all", "none"},
            .doc = "Whose directories and logs stay; those of failed trials stay always."}},
          {"lease_seconds",
           t,
           &TunerOptions::lease_seconds,
           {.bounds = positive(),
            .unit = "seconds",
            .doc = "A worker on another machine that was not heard of for so long has lost its trial."}},
          {"max_attempts",
           t,
           &TunerOptions::max_attempts,
           {.bounds = at_least(1), .doc = "A trial that took so many workers with it has failed."}},
      }};
}

}  // namespace

const ConfigTable<StudyConfig>& study_keys() {
  static const ConfigTable<StudyConfig> table{objective_keys(), study_section()};
  return table;
}

const ConfigTable<SamplerOptions>& sampler_keys() {
  static const ConfigTable<SamplerOptions> table{
      {{"Sampler",
        {
            {"type",
             &SamplerOptions::type,
             {.choices = {"tpe", "random", "grid"}, .doc = "How the values of the next trial are chosen."}},
            {"seed", &SamplerOptions::seed, {.doc = "Of what is drawn."}},
            {"startup_trials",
             &SamplerOptions::startup_trials,
             {.bounds = at_least(1), .doc = "tpe: random until so many have finished."}},
            {"candidates",
             &SamplerOptions::candidates,
             {.bounds = between(0, 100'000),
              .doc = "tpe: drawn from the good ones' density each time; 0 chooses by the space."}},
            {"multivariate",
             &SamplerOptions::multivariate,
             {.doc = "tpe: one density over all parameters; false: one for each."}},
            {"prior_weight",
             &SamplerOptions::prior_weight,
             {.bounds = positive(), .doc = "tpe: of the whole range, in units of one trial."}},
        }}},
      "sampler"};
  return table;
}

const ConfigTable<PrunerOptions>& pruner_keys() {
  static const ConfigTable<PrunerOptions> table{
      {{"Pruner",
        {
            {"type",
             &PrunerOptions::type,
             {.choices = {"none", "median", "asha"}, .doc = "What ends a trial that is behind the others."}},
            {"startup_trials",
             &PrunerOptions::startup_trials,
             {.bounds = at_least(1), .doc = "median: nothing is pruned before so many are complete."}},
            {"warmup_steps",
             &PrunerOptions::warmup_steps,
             {.bounds = at_least(0), .unit = "steps", .doc = "median: nor up to this step of a trial."}},
            {"min_resource",
             &PrunerOptions::min_resource,
             {.bounds = at_least(0),
              .unit = "steps",
              .doc = "asha: step of the first rung; 0: the first step that any trial reported."}},
            {"reduction_factor",
             &PrunerOptions::reduction_factor,
             {.bounds = at_least(2), .doc = "asha: of the trials on a rung, one in so many goes on."}},
        }}},
      "pruner"};
  return table;
}

std::vector<ConfigSection> study_reference() {
  std::vector<ConfigSection> sections = study_keys().reference();
  for (const auto& more : {sampler_keys().reference(), pruner_keys().reference()})
    sections.insert(sections.end(), more.begin(), more.end());
  return sections;
}

}  // namespace ingot::tune
