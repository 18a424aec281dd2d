#include "ingot/benchmark/step_matmuls.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/units.h"
#include "ingot/benchmark/gpu_sensors.h"
#include "ingot/benchmark/measure.h"
#include "ingot/benchmark/model_shapes.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/train/language/step_matmuls.h"

namespace ingot::benchmark {
namespace {

using Sample = StepMatmuls::Sample;

struct Observed {
  Sample sample;
  std::optional<GpuSensors::Reading> gpu;
};

// 0.1, 0.25, 0.5, and then 1, 2, 5 and their tens: a GPU changes most at first.
double edge_behind(double edge) {
  if (edge < 0.09) return 0.1;
  if (edge < 0.2) return 0.25;
  const double ten = std::pow(10, std::floor(std::log10(edge * 1.01)));
  const double first = edge / ten;
  return first < 1.5 ? 2 * ten : first < 4 ? 5 * ten : 10 * ten;
}

/// The samples that end between two edges of the table.
struct Window {
  double until = 0, seconds = 0, flops = 0;
  std::vector<double> mhz, watts;

  void add(const Observed& o) {
    until = o.sample.end;
    seconds += o.sample.end - o.sample.begin;
    flops += o.sample.flops;
    if (!o.gpu.has_value()) return;
    mhz.push_back(o.gpu->sm_mhz);
    watts.push_back(o.gpu->watts);
  }
  double rate() const { return flops / seconds; }
};

std::vector<Window> windows_of(const std::vector<Observed>& observed) {
  std::vector<Window> windows;
  double edge = 0;
  for (const Observed& o : observed) {
    if (o.sample.end > edge || windows.empty()) {
      while (edge < o.sample.end) edge = edge_behind(edge);
      windows.emplace_back();
    }
    windows.back().add(o);
  }
  return windows;
}

// Of whole steps, so that every matmul counts as often as it occurs: the median of those in the last half,
// or the last.
double sustained_seconds(const std::vector<Sample>& samples) {
  const double half = samples.back().end / 2;
  std::vector<double> seconds;
  double last = 0, begin = 0;
  std::int64_t steps = 0;
  for (const Sample& s : samples) {
    if (!s.whole) continue;
    last = (s.end - begin) / static_cast<double>(s.steps - steps);
    if (begin >= half) seconds.push_back(last);
    begin = s.end;
    steps = s.steps;
  }
  return seconds.empty() ? last : median(seconds);
}

std::string formula(const StepMatmul& p) {
  switch (p.kind) {
    case StepMatmul::Kind::forward:
      return p.gelu ? "y = gelu(x wT + b)" : p.bias ? "y = x wT + b" : "y = x wT";
    case StepMatmul::Kind::input_gradient:
      return p.gelu ? "dx = dy w gelu'" : p.accumulate ? "dx += dy w" : "dx = dy w";
    case StepMatmul::Kind::weight_gradient:
      break;
  }
  return fmt::format("dw {} dyT x{}", p.accumulate ? "+=" : "=", p.bias ? ", db" : "");
}

nlohmann::ordered_json to_json(const Window& w) {
  nlohmann::ordered_json json{{"until", w.until}, {"seconds", w.seconds}, {"gflops", w.rate() * 1e-9}};
  if (w.mhz.empty()) return json;
  json["sm_mhz"] = median(w.mhz);
  json["watts"] = median(w.watts);
  return json;
}

nlohmann::ordered_json to_json(const StepMatmul& p, double seconds, double all) {
  return {{"matmul", formula(p)},
          {"weights", p.weights},
          {"m", p.m()},
          {"n", p.n()},
          {"k", p.k()},
          {"count", p.count},
          {"seconds", seconds},
          {"share", seconds * static_cast<double>(p.count) / all},
          {"gflops", p.flops() / seconds * 1e-9}};
}

nlohmann::ordered_json measure(const StepMatmulsOptions& o, ComputeBackend& on) {
  const DType dtype = parse_dtype(o.dtype);
  const StepMatmuls work(shape_config(o.shape, dtype), o.tokens(), on.device());
  const GpuSensors sensors(on.capabilities().pci_address);
  // A GPU has worked while libraries chose their kernels: it is to begin as one that rested.
  if (on.capabilities().streams) std::this_thread::sleep_for(std::chrono::seconds(1));
  std::vector<std::optional<GpuSensors::Reading>> readings;
  const std::vector<Sample> samples =
      work.sustain(o.seconds, [&](const Sample&) { readings.push_back(sensors.read()); });
  const std::vector<double> each = work.time_each(0.2);
  readings.resize(samples.size());
  std::vector<Observed> observed;
  for (std::size_t i = 0; i < samples.size(); ++i) observed.push_back({samples[i], readings[i]});
  const double step = sustained_seconds(samples);
  nlohmann::ordered_json json{{"shape", o.shape},
                              {"batch", o.batch},
                              {"sequence", o.sequence},
                              {"dtype", o.dtype},
                              {"device", on.capabilities().device_name},
                              {"threads", num_threads()},
                              {"seconds", samples.back().end},
                              {"steps", samples.back().steps},
                              {"flops_of_step", work.flops()},
                              {"step_ms", step * 1e3},
                              {"sustained_gflops", work.flops() / step * 1e-9}};
  const auto& peaks = on.capabilities().peak_flops;
  if (const auto peak = peaks.find(dtype); peak != peaks.end() && peak->second > 0)
    json["peak_gflops"] = peak->second * 1e-9;
  if (const auto limit = sensors.limit_watts(); limit.has_value()) json["limit_watts"] = *limit;
  json["windows"] = nlohmann::ordered_json::array();
  for (const Window& window : windows_of(observed)) json["windows"].push_back(to_json(window));
  double all = 0;
  for (std::size_t i = 0; i < each.size(); ++i) all += each[i] * static_cast<double>(work.matmuls()[i].count);
  json["matmuls"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < each.size(); ++i)
    json["matmuls"].push_back(to_json(work.matmuls()[i], each[i], all));
  return json;
}

double number(const nlohmann::ordered_json& json, const char* key) { return json.at(key).get<double>(); }

std::string windows_text(const nlohmann::ordered_json& result) {
  const bool sensors =
      std::ranges::any_of(result.at("windows"), [](const auto& w) { return w.contains("watts"); });
  std::string text =
      fmt::format("{:>10} {:>10}{}\n", "until", "TFLOP/s", sensors ? "     SM MHz      watts" : "");
  for (const auto& window : result.at("windows")) {
    text += fmt::format("{:>8.2f} s {:>10.4g}", number(window, "until"), number(window, "gflops") * 1e-3);
    if (window.contains("watts"))
      text += fmt::format(" {:>10.0f} {:>10.0f}", number(window, "sm_mhz"), number(window, "watts"));
    text += "\n";
  }
  return text;
}

std::string result_text(const StepMatmulsOptions& o, const nlohmann::ordered_json& result) {
  std::string text =
      fmt::format("the matmuls of a step of {}, batch {} x {}, {}, {}, {} threads: {:.4g} TFLOP\n\n", o.shape,
                  o.batch, o.sequence, o.dtype, result.at("device").get<std::string>(), num_threads(),
                  number(result, "flops_of_step") * 1e-12);
  text += windows_text(result);
  const double rate = number(result, "sustained_gflops");
  text +=
      fmt::format("\nsustained  {:.4g} TFLOP/s{}\n", rate * 1e-3,
                  result.contains("peak_gflops") ? fmt::format(" = {:.0f} % of the {:.0f} of its data sheet",
                                                               100 * rate / number(result, "peak_gflops"),
                                                               number(result, "peak_gflops") * 1e-3)
                                                 : "");
  if (result.contains("limit_watts"))
    text += fmt::format("limit      {:.0f} W\n", number(result, "limit_watts"));
  text += fmt::format("a step     {:.4g} ms, {}/s tokens with nothing but matmuls in it\n",
                      number(result, "step_ms"),
                      human_count(static_cast<double>(o.tokens()) / number(result, "step_ms") * 1e3));
  text += fmt::format("\n{:<19} {:>7} {:>7} {:>7} {:>6} {:>10} {:>7} {:>9}  {}\n", "matmul", "m", "n", "k",
                      "number", "ms each", "share", "TFLOP/s", "of");
  for (const auto& p : result.at("matmuls"))
    text += fmt::format("{:<19} {:>7} {:>7} {:>7} {:>6} {:>10.4g} {:>5.1f} % {:>9.4g}  {}\n",
                        p.at("matmul").get<std::string>(), p.at("m").get<std::int64_t>(),
                        p.at("n").get<std::int64_t>(), p.at("k").get<std::int64_t>(),
                        p.at("count").get<std::int64_t>(), number(p, "seconds") * 1e3,
                        100 * number(p, "share"), number(p, "gflops") * 1e-3,
                        fmt::join(p.at("weights").get<std::vector<std::string>>(), ", "));
  return text;
}

}  // namespace

Report time_step_matmuls(const StepMatmulsOptions& o) {
  const nlohmann::ordered_json result = measure(o, backend(choose_device(o.device)));
  return {.text = result_text(o, result), .json = dump_json(result, 2)};
}

}  // namespace ingot::benchmark
