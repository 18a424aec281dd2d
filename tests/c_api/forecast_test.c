#include "fixture.h"

enum { kRows = 200 };

/* Days of two waves; every row has a date, and the caller's arrays may go. */
static IngotTable* waves(void) {
  static char dates[kRows][32];
  static const char* times[kRows];
  static double first[kRows], second[kRows];
  static const int lengths[] = {31, 29, 31, 30, 31, 30, 31};
  int month = 0, day = 1;
  for (int i = 0; i < kRows; ++i) {
    snprintf(dates[i], sizeof dates[i], "2024-%02d-%02d", month + 1, day);
    times[i] = dates[i];
    first[i] = 10 + sin(i * 0.4);
    second[i] = -5 + cos(i * 0.4);
    if (++day > lengths[month]) {
      day = 1;
      ++month;
    }
  }
  const char* names[] = {"load", "a \"quoted\", name"};
  const double* values[] = {first, second};
  const IngotColumns columns = {sizeof columns, kRows, times, NULL, 2, names, values};
  IngotTable* table = NULL;
  CHECK_OK(ingot_table_from_columns(&columns, &table));
  return table;
}

static const char* const kSettings = "model: dlinear\nhorizon: 8\nlookback: 24\nepochs: 3\ndevice: cpu\n";

static int32_t stop_at_once(int64_t done, int64_t total, double loss, void* user) {
  CHECK(done >= 1 && done <= total && isfinite(loss));
  return ++*(int*)user == 2;
}

static void fits_predicts_and_evaluates_columns(void) {
  IngotTable* table = waves();
  IngotForecaster* forecaster = NULL;
  CHECK_OK(ingot_forecaster_fit(kSettings, table, NULL, NULL, &forecaster));
  IngotForecasterInfo info;
  CHECK_OK(ingot_forecaster_info(forecaster, &info, sizeof info));
  CHECK(info.horizon == 8 && info.lookback == 24 && info.targets == 2 && info.epochs >= 1);
  CHECK(isfinite(info.validation_loss));
  IngotPrediction* prediction = NULL;
  CHECK_OK(ingot_forecaster_predict(forecaster, table, NULL, 0, &prediction));
  size_t series = 0, targets = 0, horizon = 0;
  CHECK_OK(ingot_prediction_size(prediction, &series, &targets, &horizon));
  CHECK(series == 1 && targets == 2 && horizon == 8);
  IngotPredictedSeries load;
  CHECK_OK(ingot_prediction_series(prediction, 0, 1, &load, sizeof load));
  CHECK(strcmp(load.target, "a \"quoted\", name") == 0 && load.id[0] == '\0');
  CHECK(strcmp(load.times[0], "2024-07-19") == 0 && load.values[7] > -8 && load.values[7] < -2);
  char* csv = NULL;
  CHECK_OK(ingot_prediction_csv(prediction, &csv));
  CHECK(strstr(csv, "2024-07-26") != NULL);
  ingot_free(csv);
  const double *low = NULL, *high = NULL;
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "not asked",
              ingot_prediction_interval(prediction, 0, 0, 90, &low, &high));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "series",
              ingot_prediction_series(prediction, 1, 0, &load, sizeof load));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "target",
              ingot_prediction_series(prediction, 0, 2, &load, sizeof load));
  CHECK_OK(ingot_prediction_close(prediction));
  const int32_t level = 50;
  CHECK_OK(ingot_forecaster_predict(forecaster, table, &level, 1, &prediction));
  CHECK_OK(ingot_prediction_series(prediction, 0, 0, &load, sizeof load));
  CHECK_OK(ingot_prediction_interval(prediction, 0, 0, 50, &low, &high));
  CHECK(low[0] < load.values[0] && load.values[0] < high[0]);
  CHECK_OK(ingot_prediction_close(prediction));
  IngotEvaluation* evaluation = NULL;
  CHECK_OK(ingot_forecaster_evaluate(forecaster, table, 1, 7, &evaluation));
  size_t methods = 0;
  int64_t windows = 0;
  const char* verdict = NULL;
  CHECK_OK(ingot_evaluation_size(evaluation, &methods, &windows, &verdict));
  CHECK(methods >= 3 && windows > 1 && verdict != NULL);
  IngotForecastMetrics metrics;
  CHECK_OK(ingot_evaluation_method(evaluation, 0, &metrics, sizeof metrics));
  CHECK(metrics.mse >= 0 && metrics.mae >= 0 && metrics.method[0] != '\0');
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "index",
              ingot_evaluation_method(evaluation, methods, &metrics, sizeof metrics));
  CHECK_OK(ingot_evaluation_close(evaluation));
  CHECK_OK(ingot_forecaster_close(forecaster));
  CHECK_OK(ingot_table_close(table));
}

static void a_saved_forecaster_predicts_the_same(void) {
  IngotTable* table = waves();
  IngotForecaster *fitted = NULL, *opened = NULL;
  int steps = 0;
  CHECK_OK(ingot_forecaster_fit(kSettings, table, stop_at_once, &steps, &fitted));
  CHECK(steps >= 2);
  const char* directory = temporary("forecaster");
  CHECK_OK(ingot_forecaster_save(fitted, directory));
  CHECK_OK(ingot_forecaster_open(directory, "cpu", &opened));
  double values[2];
  IngotForecaster* both[] = {fitted, opened};
  for (int i = 0; i < 2; ++i) {
    IngotPrediction* prediction = NULL;
    IngotPredictedSeries one;
    CHECK_OK(ingot_forecaster_predict(both[i], table, NULL, 0, &prediction));
    CHECK_OK(ingot_prediction_series(prediction, 0, 0, &one, sizeof one));
    values[i] = one.values[3];
    CHECK_OK(ingot_prediction_close(prediction));
    CHECK_OK(ingot_forecaster_close(both[i]));
  }
  CHECK(values[0] == values[1]);
  CHECK_OK(ingot_table_close(table));
}

static void tables_and_settings_that_cannot_be_are_named(void) {
  IngotTable *table = NULL, *good = waves();
  IngotForecaster* forecaster = NULL;
  CHECK_OK(ingot_table_from_csv("date,x\n2024-01-01,1\n2024-01-02,two\n2024-01-03,3\n", &table));
  CHECK_FAILS(INGOT_DATA_ERROR, "two", ingot_forecaster_fit(kSettings, table, NULL, NULL, &forecaster));
  CHECK(ingot_last_error()->offset == 3 && strcmp(ingot_last_error()->key, "x") == 0);
  CHECK_OK(ingot_table_close(table));
  CHECK_OK(ingot_table_open("no-such.csv", &table));
  CHECK_FAILS(INGOT_IO_ERROR, "no-such.csv", ingot_forecaster_fit(kSettings, table, NULL, NULL, &forecaster));
  CHECK_OK(ingot_table_close(table));
  CHECK_FAILS(INGOT_INVALID_CONFIG, "horizn",
              ingot_forecaster_fit("horizn: 3\n", good, NULL, NULL, &forecaster));
  CHECK_FAILS(INGOT_INVALID_HANDLE, "table", ingot_forecaster_fit(kSettings, NULL, NULL, NULL, &forecaster));
  CHECK_FAILS(INGOT_IO_ERROR, "no-such", ingot_forecaster_open("no-such", NULL, &forecaster));
  IngotColumns columns = {sizeof columns, 2, NULL, NULL, 0, NULL, NULL};
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "times", ingot_table_from_columns(&columns, &table));
  CHECK_FAILS(INGOT_INVALID_ARGUMENT, "columns is NULL", ingot_table_from_columns(NULL, &table));
  CHECK(forecaster == NULL && table == NULL);
  CHECK_OK(ingot_table_close(good));
}

const TestCase forecast_tests[] = {
    {"forecast: fits, predicts and evaluates columns", fits_predicts_and_evaluates_columns},
    {"forecast: a saved forecaster predicts the same", a_saved_forecaster_predicts_the_same},
    {"forecast: tables and settings that cannot be are named", tables_and_settings_that_cannot_be_are_named},
    {NULL, NULL}};
