#pragma once

#include "ingot/c_api/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Time series: dates, one or several columns of numbers, and, where there are several series, the id of each
/// row's. Any thread may use one.
typedef struct IngotTable IngotTable;

/// A CSV file; docs/forecasting.md says what may stand in it. It is read and checked when it is used:
/// INGOT_DATA_ERROR names line (`offset`) and column (`key`).
INGOT_API IngotStatus ingot_table_open(const char* path, IngotTable** out);
/// The same, from memory.
INGOT_API IngotStatus ingot_table_from_csv(const char* text, IngotTable** out);

/// Columns of the caller's, which are copied.
typedef struct IngotColumns {
  size_t size;               ///< of this struct: sizeof(IngotColumns)
  size_t rows;               ///< of each column
  const char* const* times;  ///< [rows] dates as text: "2024-01-31", "2024-01-31 12:00"
  const char* const* ids;    ///< [rows] which series a row belongs to; NULL: there is one
  size_t columns;            ///< of numbers
  const char* const*
      names;  ///< [columns]; with ids, what is to be forecast is "y" unless the settings say else
  const double* const* values;  ///< [columns][rows]; NaN where a value is missing
} IngotColumns;
INGOT_API IngotStatus ingot_table_from_columns(const IngotColumns* columns, IngotTable** out);
/// NULL is allowed.
INGOT_API IngotStatus ingot_table_close(IngotTable* table);

/// A fitted model with all that is needed to use it. Takes one call at a time.
typedef struct IngotForecaster IngotForecaster;

/// Called after every optimizer step. Returns 0 to go on; anything else ends the fit there, with the best
/// weights so far.
typedef int32_t (*IngotOnFitStep)(int64_t done, int64_t total, double loss, void* user);

/// Fits a network. settings: YAML with the keys of docs/forecasting.md ("model: dlinear\nhorizon: 24\n").
/// on_step may be NULL.
INGOT_API IngotStatus ingot_forecaster_fit(const char* settings, const IngotTable* table,
                                           IngotOnFitStep on_step, void* user, IngotForecaster** out);
/// Writes a directory that ingot_forecaster_open() and `ingot forecast` open.
INGOT_API IngotStatus ingot_forecaster_save(IngotForecaster* forecaster, const char* directory);
/// device: "auto" (or NULL), "cpu", "cuda:0".
INGOT_API IngotStatus ingot_forecaster_open(const char* directory, const char* device, IngotForecaster** out);
/// NULL is allowed.
INGOT_API IngotStatus ingot_forecaster_close(IngotForecaster* forecaster);

typedef struct IngotForecasterInfo {
  int64_t horizon, lookback;  ///< rows
  int64_t targets;            ///< columns that are forecast
  int64_t epochs;             ///< of the fit
  double validation_loss;     ///< the best; NaN where none is known
} IngotForecasterInfo;
INGOT_API IngotStatus ingot_forecaster_info(IngotForecaster* forecaster, IngotForecasterInfo* info,
                                            size_t size);

/// Forecasts of all series of a table.
typedef struct IngotPrediction IngotPrediction;
/// Continues every series after its last row. levels [count]: prediction intervals, per cent from 1 to 99;
/// none may be asked for.
INGOT_API IngotStatus ingot_forecaster_predict(IngotForecaster* forecaster, const IngotTable* table,
                                               const int32_t* levels, size_t count, IngotPrediction** out);
/// How many series were continued (those shorter than the look-back are left out), targets of each, and rows
/// ahead.
INGOT_API IngotStatus ingot_prediction_size(const IngotPrediction* prediction, size_t* series,
                                            size_t* targets, size_t* horizon);
/// One target of one series. Pointers are valid while the handle is open.
typedef struct IngotPredictedSeries {
  const char* id;            ///< empty where the table has no ids
  const char* target;        ///< the column's name
  const char* const* times;  ///< [horizon], as the table writes them
  const double* values;      ///< [horizon], in the table's units
} IngotPredictedSeries;
INGOT_API IngotStatus ingot_prediction_series(const IngotPrediction* prediction, size_t series, size_t target,
                                              IngotPredictedSeries* out, size_t size);
/// The bounds [horizon] of an interval that was asked for; valid while the handle is open.
INGOT_API IngotStatus ingot_prediction_interval(const IngotPrediction* prediction, size_t series,
                                                size_t target, int32_t level, const double** low,
                                                const double** high);
/// All as CSV; to be freed with ingot_free().
INGOT_API IngotStatus ingot_prediction_csv(const IngotPrediction* prediction, char** text);
/// NULL is allowed.
INGOT_API IngotStatus ingot_prediction_close(IngotPrediction* prediction);

/// Errors over the test part of a table, of the network and of simple baselines.
typedef struct IngotEvaluation IngotEvaluation;
/// Forecasts from every `stride`-th row of the test part. season: rows of the baselines' season; 0: what
/// suits the frequency.
INGOT_API IngotStatus ingot_forecaster_evaluate(IngotForecaster* forecaster, const IngotTable* table,
                                                int64_t stride, int64_t season, IngotEvaluation** out);
/// How many methods and windows there are; *verdict is a sentence where a baseline is better than the
/// network, else empty.
INGOT_API IngotStatus ingot_evaluation_size(const IngotEvaluation* evaluation, size_t* methods,
                                            int64_t* windows, const char** verdict);
typedef struct IngotForecastMetrics {
  const char* method;  ///< the first one is the network; valid while the handle is open
  double mse, mae;     ///< of scaled values
  double mase;     ///< below 1 beats the seasonal naive forecast of one step; NaN where that makes no error
  double smape;    ///< per cent
  double seconds;  ///< to forecast all windows
} IngotForecastMetrics;
INGOT_API IngotStatus ingot_evaluation_method(const IngotEvaluation* evaluation, size_t index,
                                              IngotForecastMetrics* metrics, size_t size);
/// NULL is allowed.
INGOT_API IngotStatus ingot_evaluation_close(IngotEvaluation* evaluation);

#ifdef __cplusplus
}
#endif
