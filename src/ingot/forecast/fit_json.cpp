#include "ingot/forecast/fit_json.h"

#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/forecast/table/date_column.h"

namespace ingot::forecast {
using Json = nlohmann::ordered_json;

Json to_json(const FitConfig& c) {
  Json json{{"data", c.data},
            {"from", c.from},
            {"layout", c.table.layout},
            {"time_column", c.table.time_column},
            {"id_column", c.table.id_column},
            {"future", c.table.future},
            {"holidays", c.table.holidays},
            {"fill", name(c.table.fill)},
            {"frequency", c.table.frequency},
            {"sort", c.table.sort},
            {"date_format", c.table.date_format},
            {"decimal", name(c.table.decimal)},
            {"usual_date_order", c.table.usual_order ? name(*c.table.usual_order) : "auto"},
            {"usual_decimal", name(c.table.usual_decimal)},
            {"encoding", c.table.encoding},
            {"split", c.split.kind},
            {"train_fraction", c.split.train},
            {"test_fraction", c.split.test},
            {"scaler", name(c.scaler)},
            {"use_time_features", c.use_time_features},
            {"learning_rate", c.learning_rate},
            {"batch_size", c.batch_size},
            {"epochs", c.epochs},
            {"min_epoch_steps", c.min_epoch_steps},
            {"patience", c.patience},
            {"schedule", c.schedule},
            {"keep", c.keep},
            {"refit", c.refit},
            {"loss", c.loss},
            {"clip_grad_norm", c.clip_grad_norm},
            {"ema_decay", c.ema_decay},
            {"seed", c.seed},
            {"drop_last", c.drop_last},
            {"matmul_precision", c.matmul_precision}};
  json.update(parse_json<Json>(to_json(c.model), "the model's configuration"));
  return json;
}

Json to_json(const std::vector<EpochReport>& epochs) {
  Json json = Json::array();
  for (const EpochReport& e : epochs) {
    json.push_back({{"epoch", e.epoch},
                    {"train_loss", e.train_loss},
                    {"validation_loss", e.validation_loss},
                    {"learning_rate", e.learning_rate},
                    {"seconds", e.seconds},
                    {"best", e.best}});
  }
  return json;
}

std::vector<EpochReport> read_epochs(const Json& json) {
  std::vector<EpochReport> epochs;
  for (const Json& e : json) {
    epochs.push_back({.epoch = static_cast<std::int64_t>(epochs.size()) + 1,
                      .train_loss = e.at("train_loss"),
                      .validation_loss = e.at("validation_loss"),
                      .learning_rate = e.at("learning_rate"),
                      .seconds = e.at("seconds"),
                      .best = e.at("best")});
  }
  return epochs;
}

Json to_json(const FillReport& gaps) {
  return {{"missing_rows", gaps.missing_rows},
          {"missing_values", gaps.missing_values},
          {"rows_left_out", gaps.rows_left_out},
          {"notes", gaps.notes}};
}

}  // namespace ingot::forecast
