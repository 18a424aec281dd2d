#include "ingot/train/progress.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"

namespace ingot {

void Progress::note_evaluation(double loss) {
  if (loss < best_loss) {
    best_loss = loss;
    best_step = step;
    evaluations_since_best = 0;
  } else {
    ++evaluations_since_best;
  }
}

std::string Progress::to_json(const TrainConfig& config, std::int64_t total_steps) const {
  nlohmann::ordered_json json{
      {"format", "ingot.trainer"},
      {"version", 1},
      {"step", step},
      {"total_steps", total_steps},
      {"seed", config.seed},
      {"tokens_per_step", config.tokens_per_step()},
      {"best_step", best_step},
      {"evaluations_since_best", evaluations_since_best},
      {"data", parse_json<nlohmann::ordered_json>(data.to_json(), "the data's position")}};
  if (std::isfinite(best_loss)) json["best_loss"] = best_loss;
  return dump_json(json, 2) + "\n";
}

Progress Progress::from_json(const std::string& text, const std::string& path) {
  const auto json = parse_json_or_discard<nlohmann::ordered_json>(text);
  INGOT_CHECK(
      json.is_object() && json.value("format", "") == "ingot.trainer",
      FormatError(path, -1, "format", "is not 'ingot.trainer': another program wrote this checkpoint"));
  INGOT_CHECK(
      json.value("version", 0) == 1,
      FormatError(path, -1, "version", fmt::format("is {}, this Ingot reads 1", json.value("version", 0))));
  Progress progress;
  progress.step = json.value("step", std::int64_t{0});
  progress.best_step = json.value("best_step", std::int64_t{-1});
  progress.best_loss = json.value("best_loss", std::numeric_limits<double>::infinity());
  progress.evaluations_since_best = json.value("evaluations_since_best", std::int64_t{0});
  progress.data = data::DataState::from_json(dump_json(json.at("data")), path);
  return progress;
}

}  // namespace ingot
