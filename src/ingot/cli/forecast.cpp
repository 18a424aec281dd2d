#include "ingot/cli/forecast.h"

#include <memory>

#include "ingot/base/error.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/commands.h"
#include "ingot/cli/forecast_fitting.h"

namespace ingot::cli {
namespace {

void add_data_options(Command& command, ForecastOptions& o) {
  command.option("--fill", o.fill, "How to fill gaps and missing values")
      .one_of({"interpolate", "forward", "mean", "zero", "refuse"});
  command.flag("--sort", o.sort, "Put the rows in order of time first");
  command.option(
      "--date-format", o.date_format,
      "How dates are written: %d/%m/%Y, day-first, month-first, epoch-s ... (default: all rows tell)");
  command.option("--holidays", o.holidays,
                 "CSV of holidays (date, country), an input that is known ahead; tools/data/holiday_table.py "
                 "writes one");
  command.option("--decimal", o.decimal, "Decimal mark of numbers; default: all rows tell")
      .one_of({"auto", "point", "comma"});
  command.option("--encoding", o.encoding,
                 "What the table is encoded in, if not UTF-8: cp1252 (Excel's), latin1 ...");
}

void add_fit_options(Command& command, ForecastOptions& o) {
  command.option("--horizon", o.horizon,
                 "Rows to forecast (default 96, or what a short table holds; a season without training)");
  command.option("--lookback", o.lookback,
                 "Rows to read (default: the model's paper; less where the table is too short for it)");
  command.option("--target", o.targets, "Columns to forecast, by comma; the others are inputs only");
  command.option("--columns", o.columns, "Columns to read, by comma (default: all)");
  command.option("--future", o.future,
                 "Inputs that are known ahead (promotions, prices), by comma; rows behind the last value to "
                 "forecast give theirs");
  command.option("--split", o.split, "ratio (70/10/20 %), or ett (12/4/4 months, as papers on ETT)")
      .one_of({"ratio", "ett"});
  command.option("--scaler", o.scaler, "How to scale columns, fitted on the training part")
      .one_of({"standard", "min_max", "none"});
  command.option("--frequency", o.frequency, "Distance of rows (15min, h, D, B, W, MS); default: inferred");
  command.option("--epochs", o.epochs,
                 "Epochs at most: passes over the training part, several each if it is short");
  add_device_option(command, o.device);
  command.option("--config", o.config, "YAML file with any of the keys in docs/forecasting.md");
  command.option("--set", o.set, "Change a key: --set d_model=64 (may be repeated)").placeholder("KEY=VALUE");
  add_data_options(command, o);
}

void add_overwrite(Command& command, ForecastOptions& o) {
  command.flag("--overwrite", o.overwrite, "Replace models of an earlier call");
}

void add_save_every(Command& command, ForecastOptions& o) {
  command.option("--save-every", o.save_every, "Seconds between saves for --resume, in DIRECTORY-unfinished");
}

}  // namespace

void add_forecast(Command& root) {
  auto o = std::make_shared<ForecastOptions>();
  Command command =
      root.subcommand("forecast", "Forecast the series of a CSV file: fit, predict, evaluate, plot, compare");
  command.example("ingot forecast compare sales.csv --horizon 28", "which model suits a table");

  Command fitting =
      command.subcommand("fit", "Fit a model to a table; keeps the epoch with the least validation loss");
  fitting.option(
      "data", o->data,
      "CSV or Parquet: a date column and one column per series, or unique_id, ds, y (or data: in --config)");
  fitting
      .option(
          "--model", o->model,
          "dlinear (default), nlinear, patchtst, itransformer, timesnet, autoformer or fedformer; without "
          "training: "
          "naive, seasonal_naive, ets, arima, theta, ensemble, croston, sba, tsb, or auto, which picks the "
          "best "
          "of these")
      .suggests(all_models());
  fitting.option("--from", o->from,
                 "Begin from the weights of this model, with its sizes: fit's or a transformers PatchTST");
  fitting.option("-o,--output", o->output, "Directory of the model (default: DATA-MODEL)");
  add_overwrite(fitting, *o);
  add_fit_options(fitting, *o);
  fitting.option("--season", o->season,
                 "Rows in a season, of models without training; 0: what suits the dates");
  fitting
      .option("--keys", o->keys, "List the keys of --config and --set, or those that tell of WORD, and end")
      .alone("");
  fitting.flag("--refit", o->refit,
               "Then fit anew to all rows, for as many epochs as were best: for forecasts that are used");
  fitting.flag("--resume", o->resume, "Go on with a fit that was killed or stopped, bit for bit");
  add_save_every(fitting, *o);
  fitting.flag("--json", o->json, "No progress bar; print the result as JSON");
  fitting.example("ingot forecast fit sales.csv --horizon 28 --lookback 84",
                  "a DLinear for four weeks of daily sales");
  fitting.example("ingot forecast fit sales.csv --model auto --horizon 12",
                  "ETS, theta and others, the best by cross-validation");
  fitting.example("ingot forecast fit ETTh1.csv --model patchtst --split ett", "as in its paper");
  fitting.example("ingot forecast fit ETTh1.csv --model autoformer --split ett --resume",
                  "hours; go on after a crash, a kill or a loss of power");
  fitting.example("mpirun -n 4 ingot forecast fit sales.csv --model patchtst",
                  "four processes, each with a share of every batch");
  fitting.example("ingot forecast fit july.csv --from june-dlinear -o july-dlinear",
                  "go on from last month's weights with this month's rows");
  fitting.run([o] { return run_forecast_fit(*o); });

  Command predicting =
      command.subcommand("predict", "Continue every series after its last row, with prediction intervals");
  predicting.option("model", o->directory, "Directory that fit wrote, or a transformers PatchTST").required();
  predicting.option("data", o->data, "CSV with the columns that the model was fitted on").required();
  predicting.option("-o,--output", o->output,
                    "File to write: .csv, or .json (default, or -: standard output)");
  predicting.option("--level", o->levels,
                    "Per cent that an interval shall hold (may be repeated; default 80 and 90)");
  predicting.option("--quantiles", o->quantiles, "Quantiles to write, by comma: 0.1,0.5,0.9");
  add_data_options(predicting, *o);
  add_device_option(predicting, o->device);
  predicting.flag("--json", o->json, "Print the forecasts as JSON; with -o, what was written");
  predicting.example("ingot forecast predict sales-dlinear sales.csv -o forecast.csv --level 90",
                     "the rows after the table's last, with intervals");
  predicting.run([o] { return run_forecast_predict(*o); });

  Command evaluating = command.subcommand(
      "evaluate", "Errors on the test part from rolling origins, beside naive and ETS forecasts");
  evaluating.option("model", o->directory, "Directory that fit wrote").required();
  evaluating.option("data", o->data, "CSV").required();
  evaluating.option(
      "--stride", o->stride,
      "Rows between the origins of forecasts; 0: 1, or half a horizon of models without training");
  evaluating.option("--season", o->season, "Rows in a season; 0: a day of hours, a week of days...");
  evaluating.option("--windows", o->windows,
                    "Count only the first N forecasts of each series (default: all)");
  evaluating.option("--split", o->split, "ratio or ett (default: as fitted)").one_of({"ratio", "ett"});
  evaluating.option("--level", o->levels, "Intervals to check (per cent; default 80 and 90)");
  evaluating.option("--folds", o->folds,
                    "Cross-validate: fit anew before each of N origins, forecast the rows after it");
  evaluating.option("--fold-rows", o->fold_rows, "Rows that each fold forecasts (default: the horizon)");
  add_data_options(evaluating, *o);
  add_device_option(evaluating, o->device);
  evaluating.flag("--json", o->json, "Print JSON");
  evaluating.example(
      "ingot forecast evaluate sales-dlinear sales.csv --folds 5",
      "cross-validation: five fits, each of which has seen only what was before its test rows");
  evaluating.run([o] { return run_forecast_evaluate(*o); });

  Command plotting = command.subcommand("plot", "Draw the forecasts into one HTML file: drag to zoom");
  plotting.option("model", o->directory, "Directory that fit wrote").required();
  plotting.option("data", o->data, "CSV").required();
  plotting.option("-o,--output", o->output, "Page to write, .html (default: forecast.html)");
  plotting.option("--hold-out", o->hold_out, "Forecast the last N rows, to see them beside the forecast");
  plotting.option("--level", o->levels, "Per cent that the band shall hold (default 90)");
  add_data_options(plotting, *o);
  add_device_option(plotting, o->device);
  plotting.flag("--json", o->json, "Print JSON");
  plotting.example("ingot forecast plot sales-dlinear sales.csv --hold-out 28 -o forecast.html",
                   "the last 28 rows forecast, beside what was measured");
  plotting.run([o] { return run_forecast_plot(*o); });

  Command comparing =
      command.subcommand("compare", "Fit several models to one table and set them beside the baselines");
  comparing.option("data", o->data, "CSV (or data: in --config)");
  comparing
      .option("--model", o->models,
              "A model of fit, with training or without (may be repeated; default: all)")
      .suggests(all_models());
  comparing.option("-o,--output", o->output, "Directory for models and report (default: DATA-compare)");
  comparing.option(
      "--stride", o->stride,
      "Rows between the origins of forecasts; 0: 1, or half a horizon of models without training");
  comparing.option("--season", o->season, "Rows in a season");
  add_overwrite(comparing, *o);
  add_fit_options(comparing, *o);
  comparing.flag("--resume", o->resume,
                 "Keep the models that an earlier call fitted, go on with the one it left");
  add_save_every(comparing, *o);
  comparing.flag("--json", o->json, "Print JSON");
  comparing.example("ingot forecast compare sales.csv --model dlinear --model ets --model theta --horizon 28",
                    "a network and two models without training, over the same forecasts");
  comparing.run([o] { return run_forecast_compare(*o); });
}

}  // namespace ingot::cli
