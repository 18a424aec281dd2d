#include "ingot/forecast/fit_checkpoint.h"

#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/hash.h"
#include "ingot/base/json.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/forecaster.h"
#include "ingot/train/checkpoint_directory.h"

namespace ingot::forecast {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "ingot.fit";

CheckpointDirectory checkpoints_in(const std::string& directory) {
  return CheckpointDirectory(directory, {.state_file = "fit_state.json", .numbered = false});
}

Json progress_json(const FitProgress& p) {
  return {{"epochs", to_json(p.epochs)},
          {"best_epoch", p.best_epoch},
          {"best_validation_loss", p.best_validation_loss},
          {"batch", p.batch},
          {"loss_sum", p.loss_sum},
          {"seconds", p.seconds}};
}

FitProgress read_progress(const Json& json) {
  FitProgress p;
  p.epochs = read_epochs(json.at("epochs"));
  json.at("best_epoch").get_to(p.best_epoch);
  json.at("best_validation_loss").get_to(p.best_validation_loss);
  json.at("batch").get_to(p.batch);
  json.at("loss_sum").get_to(p.loss_sum);
  json.at("seconds").get_to(p.seconds);
  return p;
}

// A setting that did not exist when the fit was begun had what is its default now.
void check_config(const Json& begun, const std::string& now, const std::string& directory) {
  const Json wanted = parse_json<Json>(now, "the configuration");
  const Json defaults = to_json(
      FitConfig::defaults(wanted.at("model").get<std::string>(), wanted.at("horizon").get<std::int64_t>()));
  for (const auto& [key, value] : wanted.items()) {
    const Json old = begun.value(key, defaults.value(key, Json()));
    INGOT_CHECK(
        old == value,
        InvalidConfig(key, fmt::format("is {}, but the fit in {} was begun with {}; give that, or remove "
                                       "the directory to begin anew",
                                       excerpt(value, 60), directory, excerpt(old, 60))));
  }
}

void feed(Sha256& sha, const std::string& text) {
  sha.update(text);
  sha.update(std::string_view("\0", 1));  // so that no two lists of texts run into the same bytes
}

}  // namespace

FitIdentity::FitIdentity(const FitConfig& c, const SeriesTable& t) {
  Json json = to_json(c);
  json.erase("data");
  if (!c.from.empty()) json["from"] = "weights of SHA-256 " + sha256_file(weights_path(c.from));
  config = dump_json(json);
  Sha256 sha;
  feed(sha, fmt::format("{} {}", t.targets, t.frequency.name()));
  for (const std::string& name : t.column_names) feed(sha, name);
  for (const Series& series : t.series) {
    feed(sha, fmt::format("{} {}", series.length(), series.id));
    sha.update(std::as_bytes(std::span(series.times)));
    for (const std::vector<double>& column : series.columns) sha.update(std::as_bytes(std::span(column)));
    for (std::size_t c = 0; c < series.made_up.size(); ++c) {
      for (std::size_t row = 0; row < series.made_up[c].size(); ++row) {
        if (!series.measured(c, row)) feed(sha, fmt::format("{} {}", c, row));
      }
    }
  }
  table = sha.finish_hex();
}

std::string fit_digest(const FitConfig& config, const SeriesTable& table) {
  const FitIdentity identity(completed(config, table), table);
  Sha256 sha;
  feed(sha, identity.config);
  feed(sha, identity.table);
  return sha.finish_hex();
}

void save_fit_checkpoint(const std::string& directory, const FitIdentity& identity,
                         const FitCheckpoint& checkpoint) {
  const Json json{{"format", kFormat},
                  {"version", 1},
                  {"config", parse_json<Json>(identity.config, "the configuration")},
                  {"table_sha256", identity.table},
                  {"progress", progress_json(checkpoint.progress)}};
  checkpoints_in(directory).write(0, {.tensors = {{"weights", checkpoint.weights},
                                                  {"best", checkpoint.best},
                                                  {"optimizer", checkpoint.optimizer},
                                                  {"ema", checkpoint.ema}},
                                      .state = dump_json(json, 2) + "\n"});
}

std::optional<FitCheckpoint> load_fit_checkpoint(const std::string& directory, const FitIdentity& identity,
                                                 const std::string& source) {
  const std::optional<SavedCheckpoint> saved = checkpoints_in(directory).newest();
  if (!saved.has_value()) return std::nullopt;
  const std::string file = saved->state_path();
  const Json json = parse_json_or_discard<Json>(saved->state());
  INGOT_CHECK(json.is_object() && json.value("format", "") == kFormat && json.value("version", 0) == 1,
              FormatError(file, -1, "format", "is not 'ingot.fit', version 1: another program wrote it"));
  FitCheckpoint checkpoint;
  try {
    check_config(json.at("config"), identity.config, directory);
    INGOT_CHECK(
        json.at("table_sha256") == identity.table,
        DataError(source, 0, "",
                  fmt::format("is not the table that the fit in {} was begun with; give that, or remove "
                              "the directory to begin anew",
                              directory)));
    checkpoint.progress = read_progress(json.at("progress"));
  } catch (const Json::exception& error) {
    throw FormatError(file, -1, "progress", error.what());
  }
  checkpoint.weights = saved->tensors("weights");
  checkpoint.best = saved->tensors("best");
  checkpoint.optimizer = saved->tensors("optimizer");
  checkpoint.ema = saved->tensors("ema");
  return checkpoint;
}

bool has_fit_checkpoint(const std::string& directory) {
  return !directory.empty() && !checkpoints_in(directory).list().empty();
}

void remove_fit_checkpoint(const std::string& directory) {
  if (!directory.empty()) checkpoints_in(directory).remove();
}

}  // namespace ingot::forecast
