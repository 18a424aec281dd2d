#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ingot/forecast/fit.h"
#include "ingot/forecast/fit_config.h"

namespace ingot::forecast {

/// ETTh1.csv of the shared test data; a test without it skips.
inline std::string etth1() {
  const char* set = std::getenv("INGOT_DATA_DIR");
  const std::filesystem::path root =
      set != nullptr ? set : std::filesystem::path(test::source_dir()) / "../shared/data";
  return (root / "ett/ETTh1.csv").string();
}

#define INGOT_REQUIRE_ETTH1() \
  if (!std::filesystem::exists(etth1())) GTEST_SKIP() << etth1() << " is absent (set INGOT_DATA_DIR)"

/// Hours from 2020-01-01 on with two columns: a day's wave with noise, and its mirror image.
inline std::string hourly_csv(int rows) {
  std::string csv = "date,load,mirror\n";
  const DateStyle style{.clock = " %H:%M:%S"};
  for (int i = 0; i < rows; ++i) {
    const double noise = std::sin(i * 12.9898) * 43758.5453;
    const double value = 10 + 3 * std::sin(i * 6.283185307 / 24) + (noise - std::floor(noise) - 0.5);
    csv += fmt::format("{},{:.4f},{:.4f}\n", format_moment(1577836800 + i * 3600, style), value, -value);
  }
  return csv;
}

/// Reads 48 rows, forecasts 12, in four epochs.
inline FitConfig small_fit(const std::string& model = "dlinear") {
  FitConfig c = FitConfig::defaults(model, 12);
  c.model.lookback = 48;
  c.epochs = 4;
  c.min_epoch_steps = 1;
  return c;
}

inline SeriesTable table_of(const std::string& csv, const TableOptions& options = {}) {
  return read_series(CsvTable::parse(csv, "data.csv", data::LabelLines::passed_over), options);
}

/// A table of these dates with one column of numbers, a.
inline SeriesTable dated(const std::vector<std::string>& dates, const TableOptions& options = {}) {
  std::string csv = "date,a\n";
  for (std::size_t i = 0; i < dates.size(); ++i) csv += fmt::format("\"{}\",{}\n", dates[i], i);
  return table_of(csv, options);
}

/// The message of the error that `body` throws.
template <class Body>
std::string message_of(Body&& body) {
  return test::message_of<Error>(std::forward<Body>(body));
}

struct Killed {};

/// Hooks that end a fit when so many steps are done, as a kill would.
inline FitHooks killed_after(std::int64_t steps) {
  return {.on_step =
              [steps](std::int64_t done, std::int64_t, double) {
                if (done == steps) throw Killed();
              },
          .on_epoch = {}};
}

}  // namespace ingot::forecast
