#include "ingot/base/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/files.h"
#include "ingot/base/json.h"
#include "ingot/base/report_assets.h"

namespace ingot {
namespace {

using Json = nlohmann::ordered_json;

// More than a wide screen has columns; each is some twenty bytes in the file.
constexpr std::size_t kPointsPerSeries = 2000;

/// How finely an axis has to tell numbers apart: a hundred thousandth of what its series span.
struct Resolution {
  double low = std::numeric_limits<double>::infinity(), high = -low;

  void cover(const std::vector<double>& values) {
    for (const double v : values) {
      if (!std::isfinite(v)) continue;
      low = std::min(low, v);
      high = std::max(high, v);
    }
  }
  double finest() const { return low < high ? (high - low) * 1e-5 : std::numeric_limits<double>::infinity(); }
};

/// Six digits, or as many as the axis asks for: more than a screen shows, and half the size of the file.
Json rounded(double value, const Resolution& axis) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0) return 0;
  const double finest = std::min(std::abs(value) * 1e-5, axis.finest());
  const double scale = std::pow(10.0, -std::floor(std::log10(finest)));
  const double scaled = value * scale;
  const double result = scale > 0 && std::abs(scaled) < 1e15 ? std::round(scaled) / scale : value;
  return std::abs(result) < 1e15 && result == std::floor(result) ? Json(static_cast<std::int64_t>(result))
                                                                 : Json(result);
}

Json to_json(ReportSeries series, bool dates, const Resolution& x_axis, const Resolution& y_axis) {
  thin_out(series, kPointsPerSeries);
  Json x = Json::array(), y = Json::array();
  for (const double value : series.x) x.push_back(dates ? Json(std::llround(value)) : rounded(value, x_axis));
  for (const double value : series.y) y.push_back(rounded(value, y_axis));
  return {{"name", series.name},
          {"x", x},
          {"y", y},
          {"smooth", series.smooth},
          {"right", series.right_axis},
          {"dashed", series.dashed},
          {"band", series.band},
          {"points", series.points}};
}

Json to_json(const ReportChart& chart) {
  Json series = Json::array();
  Resolution x, left, right;
  for (const ReportSeries& s : chart.series) {
    x.cover(s.x);
    (s.right_axis ? right : left).cover(s.y);
  }
  for (const ReportSeries& s : chart.series) {
    INGOT_CHECK(s.x.size() == s.y.size(),
                Error("report: series '" + s.name + "' has " + std::to_string(s.x.size()) + " x values and " +
                      std::to_string(s.y.size()) + " y values; expected as many"));
    series.push_back(to_json(s, chart.dates, x, s.right_axis ? right : left));
  }
  return {{"title", chart.title},       {"x", chart.x_label},      {"y", chart.y_label},
          {"right", chart.right_label}, {"log", chart.log_y},      {"dates", chart.dates},
          {"unit", chart.date_unit},    {"logX", chart.log_x},     {"bars", chart.categories},
          {"series", series},           {"wholeX", chart.whole_x}, {"categories", chart.x_categories}};
}

Json to_json(const std::vector<std::pair<std::string, std::string>>& table) {
  Json rows = Json::array();
  for (const auto& [key, value] : table) rows.push_back(Json::array({key, value}));
  return rows;
}

Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const ReportSpace& space) {
  Json axes = Json::array(), points = Json::array();
  for (const auto& axis : space.axes)
    axes.push_back(
        {{"name", axis.name}, {"categories", axis.categories}, {"log", axis.log}, {"whole", axis.whole}});
  for (const auto& point : space.points) {
    INGOT_ASSERT(point.at.size() == space.axes.size());
    Json at = Json::array();
    for (const double place : point.at) at.push_back(finite_or_null(place));
    points.push_back({{"name", point.name}, {"at", at}, {"value", finite_or_null(point.value)}});
  }
  return {{"value", space.value_name}, {"lower", space.lower_is_better}, {"axes", axes}, {"points", points}};
}

Json to_json(const Report& report) {
  Json figures = Json::array(), charts = Json::array(), tables = Json::array(), samples = Json::array();
  for (const auto& f : report.figures)
    figures.push_back({{"label", f.label}, {"value", f.value}, {"note", f.note}});
  for (const auto& c : report.charts) charts.push_back(to_json(c));
  for (const auto& t : report.tables) {
    for (const auto& row : t.rows) INGOT_ASSERT(row.size() == t.columns.size());
    tables.push_back({{"title", t.title}, {"columns", t.columns}, {"rows", t.rows}, {"best", t.best}});
  }
  for (const auto& s : report.samples) {
    samples.push_back({{"step", s.step}, {"caption", s.caption}, {"prompt", s.prompt}, {"text", s.text}});
  }
  return {{"title", report.title},
          {"subtitle", report.subtitle},
          {"figures", figures},
          {"charts", charts},
          {"tables", tables},
          {"samples", samples},
          {"config", to_json(report.config)},
          {"configTitle", report.config_title},
          {"defaults", to_json(report.defaults)},
          {"commands", to_json(report.commands)},
          {"space", to_json(report.space)},
          {"environment", to_json(report.environment)}};
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

/// JSON inside <script>: "</script>" in a sample must not end it, and neither may "<!--" confuse it.
std::string json_for_script(const Json& json) {
  const std::string text = dump_json(json);
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "\\u003c";
    } else {
      result += c;
    }
  }
  return result;
}

void replace(std::string& text, std::string_view mark, std::string_view by) {
  const std::size_t at = text.find(mark);
  INGOT_ASSERT(at != std::string::npos);
  text.replace(at, mark.size(), by);
}

}  // namespace

void thin_out(ReportSeries& series, std::size_t points) {
  const std::size_t n = series.x.size();
  if (n <= points || points < 3) return;
  const auto y = [&](std::size_t i) { return std::isfinite(series.y[i]) ? series.y[i] : 0.0; };
  std::vector<std::size_t> kept = {0};
  // The points between the ends fall into buckets; of each stays the one that makes the largest triangle with
  // the point kept before it and the mean of the bucket after it.
  const auto bucket_start = [&](std::size_t b) { return 1 + b * (n - 2) / (points - 2); };
  for (std::size_t b = 0; b + 2 < points; ++b) {
    const std::size_t begin = bucket_start(b), end = bucket_start(b + 1);
    const std::size_t next_end = std::min(bucket_start(b + 2), n);
    double mean_x = 0, mean_y = 0;
    for (std::size_t i = end; i < next_end; ++i) {
      mean_x += series.x[i];
      mean_y += y(i);
    }
    const auto count = static_cast<double>(std::max<std::size_t>(next_end - end, 1));
    mean_x /= count;
    mean_y /= count;
    const double ax = series.x[kept.back()], ay = y(kept.back());
    std::size_t best = begin;
    double best_area = -1;
    for (std::size_t i = begin; i < end; ++i) {
      const double area = std::abs((ax - mean_x) * (y(i) - ay) - (ax - series.x[i]) * (mean_y - ay));
      if (area > best_area) {
        best_area = area;
        best = i;
      }
    }
    kept.push_back(best);
  }
  kept.push_back(n - 1);
  ReportSeries thin = series;
  thin.x.clear();
  thin.y.clear();
  for (const std::size_t i : kept) {
    thin.x.push_back(series.x[i]);
    thin.y.push_back(series.y[i]);
  }
  series = std::move(thin);
}

std::string render_report(const Report& report) {
  std::string page(report_assets::page());
  replace(page, "{{title}}", escape_html(report.title));
  replace(page, "/*{{style}}*/", report_assets::style());
  replace(page, "/*{{chart.js}}*/", report_assets::chart_js());
  // The data goes last: what a sample says must not be taken for a mark.
  replace(page, "/*{{script}}*/", report_assets::script());
  replace(page, "/*{{space}}*/", report_assets::space());
  replace(page, "{\"data\":0}", json_for_script(to_json(report)));
  return page;
}

void write_report(const std::string& path, const Report& report) {
  write_file_atomically(path, render_report(report));
}

}  // namespace ingot
