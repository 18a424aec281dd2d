#include <filesystem>

#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/report.h"
#include "ingot/forecast/fit_config.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/statistical/local_forecaster.h"
#include "ingot/train/run_metadata_file.h"

namespace ingot::forecast {
namespace {

using LocalJson = nlohmann::ordered_json;

constexpr const char* kLocalKind = "ingot_local_forecast";

LocalJson described(const std::string& directory) {
  const std::string path = directory + "/config.json";
  if (!std::filesystem::exists(path)) return {};
  const LocalJson json = parse_json_or_discard<LocalJson>(read_file(path));
  return json.is_object() && json.value("model_type", LocalJson()) == LocalJson(kLocalKind) ? json
                                                                                            : LocalJson();
}

// How tables are read and split, in the words of a fit's configuration.
FitConfig reading_of(const LocalForecaster& f) {
  FitConfig config = FitConfig::defaults("dlinear", f.horizon);
  config.table = f.table;
  config.split = f.split;
  return config;
}

}  // namespace

bool is_local_forecaster(const std::string& directory) { return !described(directory).is_null(); }

void save_local_forecaster(const std::string& directory, const LocalForecaster& f, const Report* report) {
  LocalJson reading = to_json(reading_of(f)), scores = LocalJson::array(), kept = LocalJson::object();
  for (const char* key : {"layout", "time_column", "id_column", "future", "holidays", "fill", "frequency",
                          "sort", "date_format", "decimal", "usual_date_order", "usual_decimal", "encoding",
                          "split", "train_fraction", "test_fraction"}) {
    kept[key] = reading[key];
  }
  for (const LocalScore& score : f.scores) scores.push_back({{"model", score.model}, {"mase", score.mase}});
  const LocalJson json{{"model_type", kLocalKind},
                       {"model", f.model},
                       {"horizon", f.horizon},
                       {"season", f.season},
                       {"columns", f.column_names},
                       {"targets", f.targets},
                       {"frequency", f.frequency.name()},
                       {"reading", kept},
                       {"scores", scores}};
  AtomicDirectory files(directory);
  write_file_atomically(files.file("config.json"), dump_json(json, 2) + "\n");
  write_metadata(f.metadata, files.path());
  if (report != nullptr) write_report(files.file("report.html"), *report);
  files.commit();
}

LocalForecaster load_local_forecaster(const std::string& directory) {
  const std::string path = directory + "/config.json";
  const LocalJson json = described(directory);
  LocalForecaster f;
  try {
    Config config = Config::parse(dump_json(json.at("reading")), path);
    const FitConfig reading = read_fit_config(config);
    f.table = reading.table;
    f.split = reading.split;
    f.model = json.at("model").get<std::string>();
    f.horizon = json.at("horizon").get<std::int64_t>();
    f.season = json.at("season").get<std::int64_t>();
    f.column_names = json.at("columns").get<std::vector<std::string>>();
    f.targets = json.at("targets").get<std::size_t>();
    f.frequency = parse_frequency(json.at("frequency").get<std::string>());
    for (const LocalJson& score : json.at("scores"))
      f.scores.push_back({score.at("model").get<std::string>(), score.at("mase").get<double>()});
  } catch (const LocalJson::exception& error) {
    throw FormatError(path, -1, "config.json", error.what());
  }
  static_cast<void>(local_model(f.model));
  const bool sound = f.horizon >= 1 && f.horizon <= 1'000'000 && f.season >= 1 && f.targets >= 1 &&
                     f.targets <= f.column_names.size();
  INGOT_CHECK(sound,
              FormatError(path, -1, "config.json", "horizon, season, columns and targets do not agree"));
  f.metadata = readable_metadata(directory);
  return f;
}

}  // namespace ingot::forecast
