#include <cmath>

#include "bindings.h"
#include <nanobind/stl/unique_ptr.h>
#include <nlohmann/json.hpp>

#include "ingot/base/config.h"
#include "ingot/base/report.h"
#include "ingot/core/device_config.h"
#include "ingot/forecast/cross_validate.h"
#include "ingot/forecast/fit_json.h"
#include "ingot/forecast/forecast_text.h"
#include "ingot/forecast/forecaster.h"
#include "ingot/forecast/plot.h"

namespace ingot::python {
namespace {

using namespace ingot::forecast;

// Ends a fit between two steps where Python has a signal or a callback has failed.
struct Progress {
  nb::object callback;
  std::optional<nb::python_error> error;

  bool failed() {
    const AcquiredGil acquire;
    if (!error && PyErr_CheckSignals() != 0) error.emplace();
    return error.has_value();
  }
  void call(std::int64_t done, std::int64_t total, double loss) {
    if (callback.is_none()) return;
    const AcquiredGil acquire;
    if (error) return;
    try {
      callback(done, total, loss);
    } catch (nb::python_error& thrown) {
      error.emplace(std::move(thrown));
    }
  }
};

// Ctrl-C ends the work between two batches.
void check_signals() {
  const AcquiredGil acquire;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

FitConfig fit_config(const std::string& yaml, const std::string& name) {
  Config file = Config::parse(yaml, name);
  return read_fit_config(file);
}

std::unique_ptr<Forecaster> fit_table(const std::string& yaml, const data::CsvTable& given,
                                      nb::object on_step) {
  Progress progress{.callback = std::move(on_step)};
  std::unique_ptr<Forecaster> result;
  {
    const ReleasedGil release;
    FitConfig config = fit_config(yaml, "forecast options");
    const SeriesTable table = read_series(given, config.table);
    const FitHooks hooks{.on_step = [&](std::int64_t done, std::int64_t total,
                                        double loss) { progress.call(done, total, loss); },
                         .should_stop = [&] { return progress.failed(); }};
    result = std::make_unique<Forecaster>(fit_forecaster(std::move(config), table, hooks));
  }
  if (progress.error) throw std::move(*progress.error);
  return result;
}

nb::list epochs_of(const Forecaster& self) {
  nb::list result;
  for (const EpochReport& epoch : self.epochs) {
    nb::dict row;
    row["epoch"] = epoch.epoch;
    row["train_loss"] = epoch.train_loss;
    row["validation_loss"] = epoch.validation_loss;
    row["learning_rate"] = epoch.learning_rate;
    row["seconds"] = epoch.seconds;
    row["best"] = epoch.best;
    result.append(row);
  }
  return result;
}

nb::list methods_of(const std::vector<Metrics>& methods) {
  nb::list result;
  for (const Metrics& m : methods) {
    nb::dict row;
    row["method"] = m.method;
    row["mse"] = m.mse;
    row["mae"] = m.mae;
    row["mase"] = std::isnan(m.mase) ? nb::none() : nb::object(nb::float_(m.mase));
    row["smape"] = m.smape;
    nb::dict coverage;
    for (const auto& [level, share] : m.coverage) coverage[nb::int_(level)] = share;
    row["coverage"] = coverage;
    row["seconds"] = m.seconds;
    result.append(row);
  }
  return result;
}

std::string predict_csv(const Forecaster& self, const data::CsvTable& given, const std::vector<int>& levels) {
  const SeriesTable table = read_series(given, self.table_options());
  self.check(table);
  return to_csv(predict(self, table, levels), table);
}

std::string plot_table(const Forecaster& self, const data::CsvTable& given, std::int64_t hold_out,
                       const std::optional<int>& level) {
  const SeriesTable table = read_series(given, self.table_options());
  self.check(table);
  return render_report(forecast_report(self, table, hold_out, {.level = level}));
}

nb::dict evaluate_table(const Forecaster& self, const data::CsvTable& given, std::int64_t stride,
                        std::int64_t season) {
  Evaluation e;
  {
    const ReleasedGil release;
    const SeriesTable table = read_series(given, self.table_options());
    self.check(table);
    e = evaluate(self, table, {.stride = stride, .season = season, .on_batch = check_signals});
  }
  nb::dict result;
  result["windows"] = e.windows;
  result["season"] = e.season;
  result["methods"] = methods_of(e.methods);
  result["notes"] = nb::cast(e.notes);
  result["verdict"] = e.verdict;
  return result;
}

nb::dict cross_validate_table(const std::string& yaml, const data::CsvTable& given, std::int64_t folds,
                              std::int64_t test_rows, std::int64_t stride) {
  CrossValidation found;
  Progress progress;
  {
    const ReleasedGil release;
    const FitConfig config = fit_config(yaml, "forecast options");
    const SeriesTable table = read_series(given, config.table);
    const FitHooks hooks{
        .on_step = {}, .on_epoch = {}, .should_stop = [&progress] { return progress.failed(); }};
    found = cross_validate(
        config, table, {.folds = folds, .test_rows = test_rows, .stride = stride, .on_batch = check_signals},
        [&](std::int64_t, const FitConfig& of_fold, const SeriesTable& before) {
          return fit_forecaster(of_fold, before, hooks);
        });
  }
  if (progress.error) throw std::move(*progress.error);
  nb::list rows;
  for (const Fold& fold : found.folds) {
    nb::dict row;
    row["rows"] = fold.rows;
    row["epochs"] = fold.epochs;
    row["methods"] = methods_of(fold.evaluation.methods);
    rows.append(row);
  }
  nb::dict result;
  result["folds"] = rows;
  result["mean"] = methods_of(found.mean);
  return result;
}

}  // namespace

void bind_forecast(nb::module_& module) {
  nb::class_<Forecaster>(module, "_Forecaster")
      .def_static(
          "load",
          [](const std::string& directory, const std::string& device) {
            return std::make_unique<Forecaster>(load_forecaster(directory, choose_device(device)));
          },
          "directory"_a, "device"_a, ReleaseGil())
      .def(
          "save",
          [](const Forecaster& self, const std::string& directory) { save_forecaster(directory, self); },
          "directory"_a, ReleaseGil())
      .def("predict", predict_csv, "table"_a, "levels"_a, ReleaseGil())
      .def("plot", plot_table, "table"_a, "hold_out"_a, "level"_a.none(), ReleaseGil())
      .def("evaluate", evaluate_table, "table"_a, "stride"_a, "season"_a)
      .def("epochs", epochs_of)
      .def("usual_levels", [](const Forecaster& self) { return self.calibration.usual_levels(); })
      .def_prop_ro("horizon", [](const Forecaster& self) { return self.config.model.horizon; })
      .def_prop_ro("columns", [](const Forecaster& self) { return self.column_names; })
      .def_prop_ro("targets",
                   [](const Forecaster& self) {
                     return std::vector<std::string>(
                         self.column_names.begin(),
                         self.column_names.begin() + static_cast<std::ptrdiff_t>(self.targets));
                   })
      .def("settings", [](const Forecaster& self) { return to_json(self.config).dump(); });
  module.def("_fit_forecaster", fit_table, "yaml"_a, "table"_a, "on_step"_a.none());
  module.def("_cross_validate", cross_validate_table, "yaml"_a, "table"_a, "folds"_a, "test_rows"_a,
             "stride"_a);
}

}  // namespace ingot::python
