#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ingot/data/csv.h"
#include "ingot/forecast/table/calendar.h"
#include "ingot/forecast/table/date_style.h"
#include "ingot/forecast/table/number_column.h"

namespace ingot::forecast {

using data::CsvTable;
using data::DataError;

/// One series: rows at equal distances, one value per column and row.
struct Series {
  std::string id;                            ///< empty for a wide table, which is one series
  std::vector<Moment> times;                 ///< ascending, without gaps
  std::int64_t month_day = 0;                ///< that rows of months lie on, for Frequency::advance
  std::vector<std::vector<double>> columns;  ///< [columns][rows]; no value is missing any more
  /// [inputs][rows, and those behind them that are known]: what may be read ahead of a forecast's origin.
  std::vector<std::vector<double>> future = {};
  /// Which of them were made up: [columns][rows], a column's empty where none was. They are read by models,
  /// but no loss, error or interval counts them.
  std::vector<std::vector<bool>> made_up;
  std::size_t length() const { return times.size(); }
  bool measured(std::size_t column, std::size_t row) const {
    return made_up.empty() || made_up[column].empty() || !made_up[column][row];
  }
  /// Whether one of rows [first, last) was.
  bool any_measured(std::size_t column, std::size_t first, std::size_t last) const;
};

/// How values that are not there are made up.
enum class FillMethod : std::uint8_t {
  interpolate,  ///< a straight line between the neighbours; the nearest value at the ends
  forward,      ///< the last value before; the first one at the start
  mean,         ///< the mean of the values before: none of the test part; the first one at the start
  zero,         ///< says what a value that is not there means, so such values count as measured
  refuse,       ///< DataError instead
};
FillMethod parse_fill_method(std::string_view text, std::string_view key = "fill");
std::string_view name(FillMethod method);

struct TableOptions {
  /// "wide": one date column, one column per series. "long": an id column, a date column, `y`, and further
  /// columns that may help to forecast it. "auto": long where the header has unique_id.
  std::string layout = "auto";
  std::string time_column;              ///< default: `date`, `ds`, `timestamp`..., or the first column
  std::string id_column = "unique_id";  ///< of the long layout; several columns: "store,item"
  /// Wide: what is to be forecast; the other columns are then inputs only. Default: all. Long: default `y`.
  std::vector<std::string> targets;
  std::vector<std::string> columns;  ///< read only these (and the targets); default: all
  /// Read nothing else than the targets where some columns are, for models that use nothing else.
  bool targets_only = false;
  /// Inputs that are known ahead (prices, promotions): no column of the others. Rows behind the last one with
  /// a target give their values to come.
  std::vector<std::string> future = {};
  std::string holidays = {};  ///< path of a table of holidays (HolidayTable), which are such inputs, too
  FillMethod fill = FillMethod::interpolate;
  std::string frequency;             ///< default: inferred
  bool sort = false;                 ///< put rows in order of time first
  std::string date_format = "auto";  ///< as DateSource::format
  DecimalMark decimal = DecimalMark::automatic;
  /// What the table a model was fitted to showed: settles what another leaves open.
  std::optional<DateOrder> usual_order = {};
  DecimalMark usual_decimal = DecimalMark::automatic;
  std::string encoding = {};  ///< of the file, as data::TextFile's: "cp1252"; default: UTF-8
};

/// What had to be made up, and what was left out.
struct FillReport {
  std::int64_t missing_rows = 0;    ///< dates that the file skips
  std::int64_t missing_values = 0;  ///< cells that are empty or say NaN, in the rows that are there
  std::int64_t rows_left_out = 0;  ///< after the last value of any target, where nothing is to be learnt from
  std::string first;               ///< where the first missing one is: "line 17, column 'OT'"
  std::vector<std::string> notes;  ///< one line for each column and kind, for people
};

/// A series that nothing can be done with beside others, and why.
struct LeftOut {
  std::string id;  ///< of the series; of a wide table the column's name
  std::string reason;
};

/// A user's data: one or several series with the same columns, the targets first.
struct SeriesTable {
  std::string source;
  std::string time_name;     ///< the header's word for the dates
  std::string id_name;       ///< and for the ids of the long layout
  bool several_ids = false;  ///< columns: names and ids are lines of CSV, "store,item" and "12,milk"
  std::vector<std::string> column_names;
  std::size_t targets = 0;  ///< how many of the columns, from the first on, are to be forecast
  std::vector<std::string> future_names = {};  ///< of the inputs that are known ahead
  Frequency frequency;
  DateStyle date_style;
  std::optional<DateOrder> date_order = {};      ///< where the order of day and month mattered
  DecimalMark decimal = DecimalMark::automatic;  ///< what the numbers' marks told
  bool long_layout = false;
  std::vector<Series> series;
  FillReport filled;
  /// Of a long table: of one row, or without a value of a column; of a wide one: columns without a value.
  std::vector<LeftOut> left_out;
  std::string read_as;  ///< what was understood of dates and numbers, in one line
};

/// The options that read another table as this one was, whatever that shows: its ids were recognized, and
/// what its dates and numbers told stands in usual_order and usual_decimal.
TableOptions with_layout_of(const SeriesTable& table, TableOptions options);

/// Advice for a column of a series that nothing can be learnt from.
std::string_view how_to_leave_out(const Series& series, bool is_target);

/// Reads and checks a table. Series of a long table that have one row, or no value of a column, are left out
/// where others are there. Rows at the end that have no value of any target are left out: they are no
/// history, and a forecast begins with them (not where `fill` is zero, which says what they are). DataError
/// names line and column for dates that are not dates, not ascending, given twice or at irregular distances;
/// for text and infinities among the numbers; for a column without any value or name; for a date where the
/// header should be; for gaps when `fill` is refuse, and for more rows that are missing than there are.
SeriesTable read_series(const CsvTable& csv, const TableOptions& options = {});
SeriesTable read_series(const std::string& path, const TableOptions& options = {});

}  // namespace ingot::forecast
