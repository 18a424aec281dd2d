#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ingot {

/// One line of a chart. Values that are not finite are gaps.
struct ReportSeries {
  std::string name;
  std::vector<double> x, y;  // of one length, x ascending
  bool smooth = false;       // noisy: drawn faint under its running mean (the reader sets how far it reaches)
  bool right_axis = false;
  bool dashed = false;  // a limit or a baseline
  bool band = false;    // the lower edge of a band up to the next series, which is its upper edge
  bool points = false;  // dots without a line
};

struct ReportChart {
  std::string title;
  std::string x_label, y_label, right_label;
  bool log_x = false;
  bool log_y = false;          // how it opens; the reader may switch
  bool dates = false;          // x counts seconds since 1970 (UTC)
  std::string date_unit = {};  // what a row is: "day", "month", "quarter", "year", and no time is shown
  bool whole_x = false;        // x counts something: no fractions on its axis
  std::vector<std::string> x_categories = {};  // not empty: x is the index of one of these
  std::vector<std::string> categories = {};    // not empty: bars, one per category, of the first series' y
  std::vector<ReportSeries> series;
};

/// One of the big numbers at the top.
struct ReportFigure {
  std::string label, value, note;
};

/// Rows of text under their columns' names; the first column names the row.
struct ReportTable {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as `columns`
  std::vector<std::size_t> best = {};          // rows that are marked as the best
};

/// Points of a space, each with a value: drawn as parallel coordinates, and as a contour over two axes.
struct ReportSpace {
  struct Axis {
    std::string name;
    std::vector<std::string> categories = {};  // not empty: positions are indices of these
    bool log = false, whole = false;
  };
  struct Point {
    std::string name;
    std::vector<double> at;  // by axis; NaN where it has none
    double value = 0;
  };
  std::string value_name = "value";
  bool lower_is_better = true;
  std::vector<Axis> axes;  // the first two open the contour
  std::vector<Point> points;
};

/// What the model wrote at some step.
struct ReportSample {
  std::int64_t step = 0;
  std::string caption;  // "validation loss 3.21"
  std::string prompt, text;
};

/// A report of a run: one HTML file that needs nothing else and opens offline, in light and in dark.
struct Report {
  std::string title, subtitle;
  std::vector<ReportFigure> figures;
  std::vector<ReportChart> charts;
  std::vector<ReportTable> tables;
  std::vector<ReportSample> samples;
  std::string config_title = "Configuration";
  std::vector<std::pair<std::string, std::string>> config, environment;
  std::vector<std::pair<std::string, std::string>> commands;  ///< purposes, and commands for a shell
  ReportSpace space;                                          ///< without axes: none is drawn
  std::vector<std::pair<std::string, std::string>> defaults;  ///< of the configuration; opens on a click
};

std::string render_report(const Report& report);

/// Renders and writes atomically.
void write_report(const std::string& path, const Report& report);

/// Keeps at most `points` of a series, those that shape the curve (largest-triangle-three-buckets,
/// Steinarsson 2013): both ends stay, and so do spikes.
void thin_out(ReportSeries& series, std::size_t points);

}  // namespace ingot
