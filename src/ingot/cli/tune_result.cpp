#include "ingot/cli/tune_result.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/plural.h"
#include "ingot/base/printable.h"
#include "ingot/base/secrets.h"
#include "ingot/base/shell.h"
#include "ingot/cli/text_table.h"
#include "ingot/cli/tune_objectives.h"
#include "ingot/tune/database.h"
#include "ingot/tune/failures.h"
#include "ingot/tune/importance.h"

namespace ingot::cli {
namespace {

using Json = nlohmann::ordered_json;
using tune::Failure;
using tune::StudyConfig;
using tune::Trial;
using tune::TrialState;
using tune::Tuner;

// Where the best trial left something that can be used.
std::string best_directory(const StudyConfig& config, const Trial& best) {
  const std::string directory = config.trial_directory(best.number);
  return config.keep != "none" && std::filesystem::exists(directory) ? directory : "";
}

struct NextCommands {
  std::string purpose, command;  // of the best trial's settings; empty: there is none
  std::string longer;            // another suggestion
};

// Relative paths of what is tried start at the study's directory.
std::string from_here(const StudyConfig& config, const std::string& command) {
  std::error_code code;
  const bool there = std::filesystem::equivalent(std::filesystem::current_path(), config.directory, code);
  return there ? command : fmt::format("cd {} && {}", shell_word(config.directory), command);
}

NextCommands next_commands(const StudyConfig& config, const Trial& best) {
  const std::string directory = std::filesystem::absolute(config.trial_directory(best.number)).string();
  if (config.kind == "train" && std::filesystem::exists(directory + "/config.yaml")) {
    return {"Train it again", from_here(config, training_command(directory)),
            from_here(config, longer_training_command(directory))};
  }
  if (config.kind == "forecast") return {"Fit it", forecast_command(config, best.values), ""};
  if (config.kind == "command")
    return {"Run it again", from_here(config, tune::command_line(config, best.values)), ""};
  return {};
}

std::size_t count_trials(const std::vector<Failure>& failures, TrialState state) {
  std::size_t count = 0;
  for (const Failure& failure : failures) count += failure.state == state ? failure.trials.size() : 0;
  return count;
}

void print_failures(const std::vector<Failure>& failures, std::size_t trials) {
  constexpr std::size_t kShown = 3;
  if (failures.empty()) return;
  const std::size_t failed = count_trials(failures, TrialState::failed);
  const std::size_t diverged = count_trials(failures, TrialState::pruned);
  fmt::print("\n{} of {} failed", failed, counted(static_cast<std::int64_t>(trials), "trial"));
  if (diverged > 0) fmt::print(", {} diverged", diverged);
  fmt::print("\n");
  for (std::size_t i = 0; i < std::min(failures.size(), kShown); ++i)
    fmt::print("  {}\n", printable(failures[i].summary()));
  if (failures.size() > kShown) {
    fmt::print("  and {} more reasons, which the report lists\n", failures.size() - kShown);
  }
}

Json to_json(const std::vector<Failure>& failures) {
  Json list = Json::array();
  for (const Failure& failure : failures) {
    list.push_back({{"state", name(failure.state)},
                    {"reason", failure.reason},
                    {"trials", failure.trials},
                    {"log", failure.log}});
  }
  return list;
}

// The trials that no other is better than in everything, and what they have.
void print_front(Tuner& tuner) {
  const std::vector<tune::Goal>& goals = tuner.goals();
  const std::vector<Trial> front = tuner.best_trials();
  ReportTable table{.title = fmt::format("Pareto front: {}", counted(std::ssize(front), "trial")),
                    .columns = {"trial"},
                    .rows = {}};
  for (const tune::Goal& goal : goals) table.columns.push_back(goal.name);
  for (const tune::Parameter& parameter : tuner.space().parameters) table.columns.push_back(parameter.name);
  for (const Trial& trial : front) {
    std::vector<std::string> row{std::to_string(trial.number)};
    for (const double value : trial.objectives) row.push_back(fmt::format("{:.6g}", value));
    for (std::size_t i = 0; i < tuner.space().size(); ++i)
      row.push_back(std::isnan(trial.values[i]) ? "" : tuner.space().text(i, trial.values[i]));
    table.rows.push_back(std::move(row));
  }
  fmt::print("\n");
  print_text_table(table);
}

Json as_json(const StudyConfig& config, Tuner& tuner, const Trial& trial) {
  Json values = Json::object();
  for (std::size_t i = 0; i < tuner.goals().size(); ++i) values[tuner.goals()[i].name] = trial.objectives[i];
  return {{"trial", trial.number},
          {"values", values},
          {"parameters", parse_json<Json>(tuner.space().to_json(trial.values), "the values of a trial")},
          {"worker", trial.worker},
          {"directory", best_directory(config, trial)},
          {"command", next_commands(config, trial).command}};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> tune_commands(const StudyConfig& config, Tuner& tuner) {
  std::vector<std::pair<std::string, std::string>> commands;
  if (!tuner.goals().empty()) {  // one for each trial that may be the best
    for (const Trial& trial : tuner.best_trials())
      commands.emplace_back(fmt::format("Run trial {} again", trial.number),
                            next_commands(config, trial).command);
    return commands;
  }
  const std::optional<Trial> best = tuner.best_trial();
  if (!best) return commands;
  const NextCommands next = next_commands(config, *best);
  if (!next.command.empty()) commands.emplace_back(next.purpose, next.command);
  if (!next.longer.empty()) commands.emplace_back("Or three times as long", next.longer);
  return commands;
}

void print_tune_result(const StudyConfig& config, Tuner& tuner, const std::string& report,
                       const std::string& go_on) {
  const std::vector<Trial> trials = tuner.trials();
  const Trial* best = tune::best_of(trials, tuner.direction());
  if (best != nullptr && !tuner.goals().empty()) {
    print_front(tuner);
  } else if (best != nullptr) {
    fmt::print("\nBest of {}: {:.6g} in trial {}\n",
               counted(std::ranges::count_if(trials, &Trial::finished), "trial"), best->value, best->number);
    for (std::size_t i = 0; i < tuner.space().size(); ++i) {
      if (std::isnan(best->values[i])) continue;
      fmt::print("  {}  {}\n", printable(tuner.space().parameters[i].name),
                 printable(tuner.space().text(i, best->values[i])));
    }
  } else {
    fmt::print("\nNo trial is complete\n");
  }
  if (best != nullptr && tuner.goals().empty() && tune::is_database_url(config.tuner.study))
    fmt::print("  worker  {}\n", printable(best->worker));
  fmt::print("  report  {}\n  study   {}\n", printable(report),
             printable(without_secrets(config.tuner.study)));
  print_failures(tune::failures_of(trials, config), trials.size());
  if (!go_on.empty()) {
    fmt::print("\nGo on with:\n  {}\n", go_on);
  } else if (best != nullptr && tuner.goals().empty()) {
    const NextCommands next = next_commands(config, *best);
    if (!next.command.empty()) fmt::print("\n{}:\n  {}\n", next.purpose, next.command);
    if (!next.longer.empty()) fmt::print("Or three times as long:\n  {}\n", next.longer);
  }
}

void print_tune_json(const StudyConfig& config, Tuner& tuner, const std::string& report) {
  const std::vector<Trial> trials = tuner.trials();
  Json json{{"study", without_secrets(config.tuner.study)}, {"trials", trials.size()}};
  for (const TrialState state : {TrialState::complete, TrialState::pruned, TrialState::failed,
                                 TrialState::running, TrialState::waiting}) {
    json[std::string(name(state))] =
        std::ranges::count(trials, state, [](const Trial& trial) { return trial.state; });
  }
  if (!tuner.goals().empty()) {
    json["pareto_front"] = Json::array();
    for (const Trial& trial : tuner.best_trials())
      json["pareto_front"].push_back(as_json(config, tuner, trial));
  } else if (const Trial* best = tune::best_of(trials, tuner.direction())) {
    const NextCommands next = next_commands(config, *best);
    json["best"] = {{"trial", best->number},
                    {"value", best->value},
                    {"parameters", parse_json<Json>(tuner.space().to_json(best->values), "the best values")},
                    {"worker", best->worker},
                    {"directory", best_directory(config, *best)},
                    {"command", next.command}};
    if (!next.longer.empty()) json["best"]["longer_command"] = next.longer;
  }
  json["failures"] = to_json(tune::failures_of(trials, config));
  const std::vector<double> shares = tune::parameter_importance(tuner.space(), trials, tuner.direction());
  for (std::size_t i = 0; i < shares.size(); ++i)
    json["importance"][tuner.space().parameters[i].name] = shares[i];
  json["report"] = report;
  fmt::print("{}\n", printable_json(dump_json(json, 2)));
}

}  // namespace ingot::cli
