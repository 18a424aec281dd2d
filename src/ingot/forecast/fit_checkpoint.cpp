#include "ingot/forecast/fit_checkpoint.h"

#include <filesystem>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/checksums.h"
#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/hash.h"
#include "ingot/base/json.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/forecaster.h"
#include "ingot/weights/safetensors.h"
#include "ingot/weights/safetensors_writer.h"

namespace ingot::forecast {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kFormat = "ingot.fit";
constexpr const char* kProgressFile = "fit_state.json";

std::string checkpoint_in(const std::string& directory) { return directory + "/checkpoint"; }

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
  require_disk_space(directory,
                     nbytes(checkpoint.weights) + nbytes(checkpoint.best) + nbytes(checkpoint.optimizer) +
                         nbytes(checkpoint.ema),
                     "a checkpoint");
  AtomicDirectory files(checkpoint_in(directory));
  write_safetensors(files.file("weights.safetensors"), checkpoint.weights);
  if (!checkpoint.best.empty()) write_safetensors(files.file("best.safetensors"), checkpoint.best);
  write_safetensors(files.file("optimizer.safetensors"), checkpoint.optimizer);
  if (!checkpoint.ema.empty()) write_safetensors(files.file("ema.safetensors"), checkpoint.ema);
  const Json json{{"format", kFormat},
                  {"version", 1},
                  {"config", parse_json<Json>(identity.config, "the configuration")},
                  {"table_sha256", identity.table},
                  {"progress", progress_json(checkpoint.progress)}};
  write_file_atomically(files.file(kProgressFile), dump_json(json, 2) + "\n");
  write_checksums(files.path());
  files.commit();
}

std::optional<FitCheckpoint> load_fit_checkpoint(const std::string& directory, const FitIdentity& identity,
                                                 const std::string& source) {
  sweep_partial(directory);
  if (!has_fit_checkpoint(directory)) return std::nullopt;
  const std::string path = checkpoint_in(directory), file = path + "/" + kProgressFile;
  verify_checksums(path);
  const Json json = parse_json_or_discard<Json>(read_file(file));
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
  checkpoint.weights = read_safetensors(path + "/weights.safetensors");
  checkpoint.optimizer = read_safetensors(path + "/optimizer.safetensors");
  if (fs::exists(path + "/best.safetensors")) checkpoint.best = read_safetensors(path + "/best.safetensors");
  if (fs::exists(path + "/ema.safetensors")) checkpoint.ema = read_safetensors(path + "/ema.safetensors");
  return checkpoint;
}

bool has_fit_checkpoint(const std::string& directory) {
  return !directory.empty() && fs::is_directory(checkpoint_in(directory));
}

void remove_fit_checkpoint(const std::string& directory) {
  if (directory.empty()) return;
  remove_with_checksums(checkpoint_in(directory));
  std::error_code ignored;
  fs::remove(directory, ignored);
}

}  // namespace ingot::forecast
