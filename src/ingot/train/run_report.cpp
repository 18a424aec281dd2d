#include "ingot/train/run_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "ingot/base/parallel.h"
#include "ingot/base/report.h"
#include "ingot/base/units.h"

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

ReportChart loss_chart(const RunHistory& history, const RunFacts& facts) {
  ReportChart chart{.title = "Loss", .x_label = "step", .y_label = "nats per token"};
  chart.series.push_back(series_of(
      history, "training", [](const StepRecord& r) { return r.loss; }, true));
  for (const bool ema : {false, true}) {
    ReportSeries series = evaluations(history, ema);
    if (!series.x.empty()) chart.series.push_back(std::move(series));
  }
  if (facts.bigram_loss.has_value())
    chart.series.push_back(level(history, "bigram baseline", *facts.bigram_loss));
  return chart;
}

ReportChart throughput_chart(const RunHistory& history, const RunFacts& facts) {
  ReportChart chart{
      .title = "Throughput", .x_label = "step", .y_label = "GFLOP/s", .right_label = "tokens/s"};
  chart.series.push_back(series_of(
      history, "GFLOP/s", [](const StepRecord& r) { return r.flops * 1e-9; }, true));
  ReportSeries tokens = series_of(
      history, "tokens/s", [](const StepRecord& r) { return r.tokens_per_second; }, true);
  tokens.right_axis = true;
  chart.series.push_back(std::move(tokens));
  if (facts.peak_flops > 0) chart.series.push_back(level(history, "peak", facts.peak_flops * 1e-9));
  if (facts.matmul_flops > 0) {
    chart.series.push_back(level(history, "matrix products alone", facts.matmul_flops * 1e-9));
  }
  return chart;
}

double median_flops(const RunHistory& history) {
  std::vector<double> values;
  for (const StepRecord& r : history.steps()) values.push_back(r.flops);
  if (values.empty()) return 0;
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

std::vector<ReportFigure> figures(const RunHistory& history, const RunFacts& facts) {
  std::vector<ReportFigure> list;
  const ReportSeries validation = evaluations(history, false);
  if (!validation.y.empty()) {
    const std::string note = facts.bigram_loss.has_value()
                                 ? fmt::format("a bigram model: {:.3f}", *facts.bigram_loss)
                                 : "nats per token";
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
    list.push_back(
        {"tokens", human_count(tokens), fmt::format("{}/s", human_count(tokens / std::max(seconds, 1e-9)))});
    const double flops = median_flops(history);
    std::string share = "median";
    if (facts.matmul_flops > 0)
      share = fmt::format("{:.0f} % of what matrix products reach here", 100 * flops / facts.matmul_flops);
    if (facts.peak_flops > 0) share += fmt::format(", {:.0f} % of the peak", 100 * flops / facts.peak_flops);
    list.push_back({"throughput", fmt::format("{:.0f} GFLOP/s", flops * 1e-9), share});
    list.push_back({"training time", human_duration(seconds), facts.device});
  }
  list.push_back({"parameters", human_count(static_cast<double>(facts.model.parameter_count())),
                  facts.model.model_type});
  return list;
}

}  // namespace

void write_run_report(const std::string& path, const RunHistory& history, const RunFacts& facts) {
  Report report;
  report.title = facts.title;
  report.subtitle =
      fmt::format("{} layers, width {}, {} heads, vocabulary {}", facts.model.num_hidden_layers,
                  facts.model.hidden_size, facts.model.num_attention_heads, facts.model.vocab_size);
  report.figures = figures(history, facts);
  report.charts.push_back(loss_chart(history, facts));
  report.charts.push_back(throughput_chart(history, facts));
  ReportChart rate{.title = "Learning rate", .x_label = "step", .y_label = "learning rate"};
  rate.series.push_back(series_of(
      history, "learning rate", [](const StepRecord& r) { return r.learning_rate; }, false));
  report.charts.push_back(std::move(rate));
  ReportChart norm{.title = "Gradient norm", .x_label = "step", .y_label = "before clipping", .log_y = true};
  norm.series.push_back(series_of(
      history, "gradient norm", [](const StepRecord& r) { return r.grad_norm; }, true));
  report.charts.push_back(std::move(norm));
  for (const SampleRecord& s : history.samples()) {
    std::string caption;
    for (const EvalRecord& e : history.evaluations()) {
      if (e.step == s.step && !e.ema) caption = fmt::format("validation loss {:.3f}", e.loss);
    }
    report.samples.push_back({s.step, caption, s.prompt, s.text});
  }
  report.config = facts.config;
  report.environment = {{"device", facts.device}, {"threads", std::to_string(num_threads())}};
  if (facts.matmul_flops > 0) {
    report.environment.emplace_back("f32 matrix products",
                                    fmt::format("{:.0f} GFLOP/s", facts.matmul_flops * 1e-9));
  }
  write_report(path, report);
}

}  // namespace ingot
