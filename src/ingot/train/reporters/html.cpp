#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "ingot/base/report.h"
#include "ingot/base/units.h"
#include "ingot/core/backend.h"
#include "ingot/train/reporter.h"

namespace ingot {
namespace {

constexpr std::size_t kPoints = 1500;  // more than any screen shows; keeps a long run's page small

template <class F>
ReportSeries series_of(const RunHistory& history, const std::string& name, F&& value, bool smooth) {
  ReportSeries series{.name = name, .smooth = smooth};
  for (const StepRecord& r : history.steps()) {
    series.x.push_back(static_cast<double>(r.step));
    series.y.push_back(value(r));
  }
  thin_out(series, kPoints);
  return series;
}

ReportSeries evaluations(const RunHistory& history, bool ema) {
  ReportSeries series{.name = ema ? "validation, averaged weights" : "validation"};
  for (const EvalRecord& r : history.evaluations()) {
    if (r.ema != ema) continue;
    series.x.push_back(static_cast<double>(r.step));
    series.y.push_back(r.loss);
  }
  return series;
}

ReportSeries level(const RunHistory& history, const std::string& name, double value) {
  const auto last = static_cast<double>(history.steps().empty() ? 1 : history.steps().back().step);
  return {.name = name, .x = {0, last}, .y = {value, value}, .dashed = true};
}

ReportChart loss_chart(const RunHistory& history, const RunInfo& info) {
  ReportChart chart{.title = "Loss", .x_label = "step", .y_label = info.loss_unit, .whole_x = true};
  chart.series.push_back(series_of(
      history, "training", [](const StepRecord& r) { return r.loss; }, true));
  for (const bool ema : {false, true}) {
    ReportSeries series = evaluations(history, ema);
    if (!series.x.empty()) chart.series.push_back(std::move(series));
  }
  for (const auto& [name, loss] : info.baselines)
    chart.series.push_back(level(history, name + " baseline", loss));
  return chart;
}

ReportChart throughput_chart(const RunHistory& history, const RunInfo& info) {
  ReportChart chart{.title = "Throughput",
                    .x_label = "step",
                    .y_label = "GFLOP/s",
                    .right_label = "tokens/s",
                    .whole_x = true};
  chart.series.push_back(series_of(
      history, "GFLOP/s", [](const StepRecord& r) { return r.flops * 1e-9; }, true));
  ReportSeries tokens = series_of(
      history, "tokens/s", [](const StepRecord& r) { return r.tokens_per_second; }, true);
  tokens.right_axis = true;
  chart.series.push_back(std::move(tokens));
  if (info.peak_flops > 0) chart.series.push_back(level(history, "peak", info.peak_flops * 1e-9));
  if (info.matmul_flops > 0) {
    chart.series.push_back(level(history, "matmuls alone", info.matmul_flops * 1e-9));
  }
  return chart;
}

// NaN, a gap, where a record lacks the name.
double value_named(const NamedValues& values, const std::string& name) {
  const auto found = std::ranges::find(values, name, &NamedValues::value_type::first);
  return found == values.end() ? std::numeric_limits<double>::quiet_NaN() : found->second;
}

// In the order in which the run first told them.
std::vector<std::string> value_names(const RunHistory& history) {
  std::vector<std::string> names;
  const auto note = [&](const NamedValues& values) {
    for (const auto& [name, value] : values)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const StepRecord& r : history.steps()) note(r.values);
  for (const EvalRecord& r : history.evaluations()) note(r.values);
  return names;
}

// Of a metric that layers have one each of: from the least to the most of them. The edges keep the same
// steps.
std::vector<ReportSeries> layer_band(const RunHistory& history, const std::string& name) {
  ReportSeries least{.name = "least to most of a layer", .band = true}, most{.name = "most of a layer"};
  const std::size_t every = 1 + history.steps().size() / kPoints;
  for (std::size_t i = 0; i < history.steps().size(); i += every) {
    const StepRecord& r = history.steps()[i];
    const auto found = std::ranges::find(r.by_layer, name, &LayerValues::value_type::first);
    if (found == r.by_layer.end() || found->second.size() < 2) continue;
    const auto [low, high] = std::ranges::minmax(found->second);
    for (ReportSeries* series : {&least, &most}) series->x.push_back(static_cast<double>(r.step));
    least.y.push_back(low);
    most.y.push_back(high);
  }
  if (least.x.empty()) return {};
  return {least, most};
}

// Of the last step.
void add_layer_table(Report& report, const RunHistory& history, const RunInfo& info) {
  if (history.steps().empty() || history.steps().back().by_layer.empty()) return;
  const StepRecord& last = history.steps().back();
  ReportTable table{.title = fmt::format("Layers in step {}", last.step), .columns = {"layer"}, .rows = {}};
  for (const auto& [name, values] : last.by_layer) table.columns.push_back(name);
  for (std::size_t i = 0; i < info.value_layers.size(); ++i) {
    std::vector<std::string>& row = table.rows.emplace_back(std::vector<std::string>{info.value_layers[i]});
    for (const auto& [name, values] : last.by_layer)
      row.push_back(i < values.size() ? fmt::format("{:.4g}", values[i]) : "");
  }
  report.tables.push_back(std::move(table));
}

ReportChart value_chart(const RunHistory& history, const RunInfo& info, const std::string& name) {
  ReportChart chart{.title = name, .x_label = "step", .y_label = name, .whole_x = true};
  chart.series = layer_band(history, name);
  const bool layers = !chart.series.empty();
  const auto told = [&](const StepRecord& r) { return !std::isnan(value_named(r.values, name)); };
  if (std::ranges::any_of(history.steps(), told))
    chart.series.push_back(series_of(
        history, layers ? "mean of the layers" : "training",
        [&](const StepRecord& r) { return value_named(r.values, name); }, true));
  ReportSeries validation{.name = "validation"};
  for (const EvalRecord& r : history.evaluations()) {
    const double value = value_named(r.values, name);
    if (r.ema || std::isnan(value)) continue;
    validation.x.push_back(static_cast<double>(r.step));
    validation.y.push_back(value);
  }
  if (!validation.x.empty()) chart.series.push_back(std::move(validation));
  for (const HealthyRange& range : info.healthy) {
    if (range.name != name) continue;
    if (std::isfinite(range.low)) chart.series.push_back(level(history, "healthy from", range.low));
    if (std::isfinite(range.high)) chart.series.push_back(level(history, "healthy to", range.high));
  }
  return chart;
}

std::string device_name(const RunInfo& info) { return backend(info.device).capabilities().device_name; }

std::string of_ranks(const MemoryRecord& memory) {
  return memory.ranks > 1 ? fmt::format(", rank {} of {}", memory.tensors.rank, memory.ranks) : "";
}

std::vector<ReportFigure> figures(const RunHistory& history, const RunInfo& info) {
  std::vector<ReportFigure> list;
  const ReportSeries validation = evaluations(history, false);
  if (!validation.y.empty()) {
    const std::string note =
        info.baselines.empty()
            ? info.loss_unit
            : fmt::format("a {} model: {:.3f}", info.baselines[0].first, info.baselines[0].second);
    list.push_back({"validation loss", fmt::format("{:.3f}", validation.y.back()), note});
  }
  if (!history.steps().empty()) {
    const StepRecord& last = history.steps().back();
    double seconds = 0, tokens = 0;
    for (const StepRecord& r : history.steps()) {
      seconds += r.seconds;
      tokens += r.seconds * r.tokens_per_second;
    }
    list.push_back({"steps", std::to_string(last.step), fmt::format("{:.2f} epochs", last.epoch)});
    if (tokens > 0)
      list.push_back({"tokens", human_count(tokens),
                      fmt::format("{}/s", human_count(tokens / std::max(seconds, 1e-9)))});
    const double flops = history.median(&StepRecord::flops);
    std::string share = "median";
    if (info.matmul_flops > 0)
      share = fmt::format("{:.0f} % of what matmuls reach here", 100 * flops / info.matmul_flops);
    if (info.peak_flops > 0) share += fmt::format(", {:.0f} % of the peak", 100 * flops / info.peak_flops);
    const double billions = flops * 1e-9;
    if (flops > 0)
      list.push_back(
          {"throughput",
           billions < 10 ? fmt::format("{:.2g} GFLOP/s", billions) : fmt::format("{:.0f} GFLOP/s", billions),
           share});
    list.push_back({"training time", human_duration(seconds), device_name(info)});
  }
  if (!history.memory().empty()) {
    const MemoryRecord& memory = history.memory().back();
    list.push_back({"peak memory", human_bytes(static_cast<std::uint64_t>(memory.tensors.bytes)),
                    fmt::format("of tensors{}; {} of a process", of_ranks(memory),
                                human_bytes(static_cast<std::uint64_t>(memory.resident.bytes)))});
  }
  list.push_back({"parameters", human_count(static_cast<double>(info.parameters)), info.model_type});
  return list;
}

// "loss_spike" as "loss spike".
std::string in_words(std::string kind) {
  std::ranges::replace(kind, '_', ' ');
  return kind;
}

Report report_of(const RunHistory& history, const RunInfo& info) {
  Report report;
  report.title = info.name;
  report.subtitle = info.subtitle;
  report.figures = figures(history, info);
  report.charts.push_back(loss_chart(history, info));
  if (history.median(&StepRecord::flops) > 0) report.charts.push_back(throughput_chart(history, info));
  ReportChart rate{.title = "Learning rate", .x_label = "step", .y_label = "learning rate", .whole_x = true};
  rate.series.push_back(series_of(
      history, "learning rate", [](const StepRecord& r) { return r.learning_rate; }, false));
  report.charts.push_back(std::move(rate));
  ReportChart norm{.title = "Gradient norm",
                   .x_label = "step",
                   .y_label = "before clipping",
                   .log_y = true,
                   .whole_x = true};
  norm.series.push_back(series_of(
      history, "gradient norm", [](const StepRecord& r) { return r.grad_norm; }, true));
  report.charts.push_back(std::move(norm));
  for (const std::string& name : value_names(history))
    report.charts.push_back(value_chart(history, info, name));
  add_layer_table(report, history, info);
  if (!history.events().empty()) {
    ReportTable& table = report.tables.emplace_back(ReportTable{
        .title = "What was done about the loss", .columns = {"step", "event", "why, and what"}, .rows = {}});
    for (const EventRecord& e : history.events())
      table.rows.push_back({std::to_string(e.step), in_words(e.kind), e.text});
  }
  for (const SampleRecord& s : history.samples()) {
    std::string caption;
    for (const EvalRecord& e : history.evaluations()) {
      if (e.step == s.step && !e.ema) caption = fmt::format("validation loss {:.3f}", e.loss);
    }
    report.samples.push_back({s.step, caption, s.prompt, s.text});
  }
  for (const Setting& setting : info.metadata.configuration)
    (setting.given ? report.config : report.defaults).emplace_back(setting.name, setting.value);
  report.environment = info.metadata.rows();
  if (info.matmul_flops > 0) {
    report.environment.emplace_back("f32 matmuls", fmt::format("{:.0f} GFLOP/s", info.matmul_flops * 1e-9));
  }
  return report;
}

// report.html: loss, learning rate, throughput, samples, configuration; one file that needs nothing else.
class HtmlReporter : public Reporter {
 public:
  void begin(const RunInfo& info) override { info_ = &info; }
  void finish(const RunHistory& history) override {
    write_report(info_->output_dir + "/report.html", report_of(history, *info_));
  }

 private:
  const RunInfo* info_ = nullptr;
};

}  // namespace

std::shared_ptr<Reporter> make_html_reporter() { return std::make_shared<HtmlReporter>(); }

}  // namespace ingot
