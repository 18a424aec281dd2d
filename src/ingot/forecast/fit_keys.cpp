#include "ingot/forecast/fit_keys.h"

#include <optional>
#include <string>

#include "ingot/forecast/scaler.h"
#include "ingot/forecast/table/date_column.h"

namespace ingot::forecast {
namespace {

using Table = ConfigTable<FitConfig>;
using Field = Table::Field;

constexpr double kMostEpochSteps = 1'000'000'000;

Table::Section data_keys() {
  constexpr auto t = &FitConfig::table;
  constexpr auto s = &FitConfig::split;
  return {
      "Data",
      {
          {"data",
           &FitConfig::data,
           {.default_text = "the command's", .doc = "Path of the CSV or Parquet file."}},
          {"layout",
           t,
           &TableOptions::layout,
           {.choices = {"auto", "wide", "long"},
            .doc = "wide: a date and a column per series; long: an id, a date, `y` and what may help to "
                   "forecast it. auto: "
                   "long where the header has unique_id."}},
          {"time_column",
           t,
           &TableOptions::time_column,
           {.default_text = "date, ds, timestamp or the first", .doc = "The column of dates."}},
          {"id_column",
           t,
           &TableOptions::id_column,
           {.doc = "The column that names a series, of the long layout; several columns: store,item."}},
          {"targets",
           t,
           &TableOptions::targets,
           {.default_text = "all; long: y", .doc = "Columns to forecast."}},
          {"columns",
           t,
           &TableOptions::columns,
           {.default_text = "all", .doc = "Read only these, and the targets."}},
          {"future",
           t,
           &TableOptions::future,
           {.default_text = "none",
            .doc = "Columns that are known ahead: rows behind the last value to forecast give theirs."}},
          {"holidays",
           t,
           &TableOptions::holidays,
           {.default_text = "none",
            .doc = "CSV file of holidays (date, country), which are inputs that are known ahead."}},
          Field::words(
              "fill", [](FitConfig& c) -> FillMethod& { return c.table.fill; },
              [](const std::string& word) { return parse_fill_method(word); },
              [](FillMethod method) { return name(method); },
              {.choices = {"interpolate", "forward", "mean", "zero", "refuse"},
               .doc = "How values that are missing are made up; refuse: an error instead."}),
          {"frequency",
           t,
           &TableOptions::frequency,
           {.default_text = "inferred", .doc = "Of the rows: h, D, MS ..."}},
          {"sort", t, &TableOptions::sort, {.doc = "Put rows in order of time first."}},
          {"date_format",
           t,
           &TableOptions::date_format,
           {.doc = "auto, an order (dmy, mdy, ymd) or a format of strftime."}},
          Field::words(
              "decimal", [](FitConfig& c) -> DecimalMark& { return c.table.decimal; },
              [](const std::string& word) { return parse_decimal_mark(word); },
              [](DecimalMark mark) { return name(mark); },
              {.doc = "The decimal mark: auto, point or comma."}),
          Field::words(
              "usual_date_order",
              [](FitConfig& c) -> std::optional<DateOrder>& { return c.table.usual_order; },
              [](const std::string& word) { return parse_date_order(word, "usual_date_order"); },
              [](const std::optional<DateOrder>& order) { return order ? name(*order) : "auto"; },
              {.doc = "The order of dates that the table showed; written by fit, for tables that leave it "
                      "open."}),
          Field::words(
              "usual_decimal", [](FitConfig& c) -> DecimalMark& { return c.table.usual_decimal; },
              [](const std::string& word) { return parse_decimal_mark(word); },
              [](DecimalMark mark) { return name(mark); },
              {.doc = "The decimal mark that the table showed; written by fit, too."}),
          {"encoding",
           t,
           &TableOptions::encoding,
           {.default_text = "UTF-8", .doc = "Of the table's text: cp1252, latin1, shift_jis ..."}},
          {"split",
           s,
           &SplitOptions::kind,
           {.choices = {"ratio", "ett"},
            .doc =
                "ratio: shares of the rows; ett: the months of every published result on the ETT tables."}},
          {"train_fraction",
           s,
           &SplitOptions::train,
           {.bounds = {.min = 0, .max = 1, .above_min = true, .below_max = true},
            .doc = "Share of the rows to learn from. Validation is what the two leave."}},
          {"test_fraction",
           s,
           &SplitOptions::test,
           {.bounds = fraction(), .doc = "Share of the rows to test on, the last ones."}},
          Field::words(
              "scaler", [](FitConfig& c) -> ScalerKind& { return c.scaler; },
              [](const std::string& word) { return parse_scaler(word); },
              [](ScalerKind kind) { return name(kind); },
              {.doc = "How each series is scaled, by its training part."}),
      }};
}

Table::Section training_keys() {
  return {
      "Training",
      {
          Field::documented("from", "text",
                            {.default_text = "none",
                             .doc = "Directory of a fitted model whose weights the fit begins from."}),
          {"use_time_features",
           &FitConfig::use_time_features,
           {.doc = "Hour, weekday, month and the like as inputs, of models that read them."}},
          {"learning_rate",
           &FitConfig::learning_rate,
           {.aliases = {"lr"}, .bounds = positive(), .default_text = "the model's", .doc = "Of Adam."}},
          {"batch_size",
           &FitConfig::batch_size,
           {.aliases = {"per_device_train_batch_size", "micro_batch_size"},
            .bounds = at_least(1),
            .unit = "windows",
            .default_text = "the model's",
            .doc = "Windows of one step."}},
          {"epochs",
           &FitConfig::epochs,
           {.aliases = {"num_epochs"},
            .bounds = at_least(1),
            .default_text = "the model's",
            .doc = "How often the data is gone through."}},
          {"min_epoch_steps",
           &FitConfig::min_epoch_steps,
           {.bounds = between(1, kMostEpochSteps),
            .default_text = "the model's",
            .doc = "A table too short for so many steps in one pass is gone through several times in an "
                   "epoch."}},
          {"patience",
           &FitConfig::patience,
           {.aliases = {"early_stopping_patience"},
            .bounds = at_least(0),
            .unit = "epochs",
            .default_text = "the model's",
            .doc = "End after so many without a lower validation loss; 0: never."}},
          {"schedule",
           &FitConfig::schedule,
           {.aliases = {"lr_scheduler_type", "lr_scheduler"},
            .choices = {"halve", "decay", "cosine", "constant"},
            .default_text = "the model's",
            .doc = "How the learning rate goes from epoch to epoch."}},
          {"keep",
           &FitConfig::keep,
           {.choices = {"best", "last"},
            .doc = "best: the weights of the epoch with the least validation loss."}},
          {"refit",
           &FitConfig::refit,
           {.doc =
                "Then fit anew to all rows, validation and test part too, for as many epochs as were best. "
                "Intervals stay those of the fit before."}},
          {"loss", &FitConfig::loss, {.choices = {"mse", "mae"}, .doc = "What is minimized."}},
          {"clip_grad_norm",
           &FitConfig::clip_grad_norm,
           {.aliases = {"max_grad_norm"},
            .bounds = at_least(0),
            .doc = "Gradients are scaled so that their global norm is at most this; 0: never."}},
          {"ema_decay",
           &FitConfig::ema_decay,
           {.bounds = fraction(),
            .doc = "Validate and keep an average of the weights with this decay; 0.99 averages some hundred "
                   "steps. 0: off."}},
          {"drop_last",
           &FitConfig::drop_last,
           {.default_text = "the model's", .doc = "Leave out an epoch's last batch where it is not full."}},
      }};
}

Table::Section machine_keys() {
  return {"Machine",
          {
              {"seed",
               &FitConfig::seed,
               {.aliases = {"train_seed"},
                .default_text = "the model's",
                .doc = "Same file, seed, device and threads, same bits."}},
              {"matmul_precision",
               &FitConfig::matmul_precision,
               {.choices = {"highest", "medium"},
                .doc = "medium: operands of matmuls and convolutions may be rounded, to bf16 on a CPU with "
                       "AVX512-BF16, to TF32 "
                       "on GPUs; sums stay f32."}},
              {"zero_stage",
               &FitConfig::zero_stage,
               {.aliases = {"zero_level"},
                .bounds = between(0, 2),
                .doc = "ZeRO: what the processes of mpirun share out instead of each keeping all of it, with "
                       "the same bits. 1: the optimizer's state; 2: the gradients too. A fit may be resumed "
                       "with another."}},
              {"device",
               &FitConfig::device,
               {.doc = "auto: a GPU where there is one, else the CPU; or cpu, cuda, cuda:N. No part of what "
                       "a fit is: it may be "
                       "resumed on another."}},
          }};
}

}  // namespace

const Table& fit_keys() {
  static const Table table{data_keys(), training_keys(), machine_keys()};
  return table;
}

std::vector<ConfigSection> fit_reference() {
  std::vector<ConfigSection> sections = fit_keys().reference();
  sections.push_back(forecast_model_reference());
  return sections;
}

}  // namespace ingot::forecast
