#include "ingot/benchmark/training.h"

#include <map>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/units.h"
#include "ingot/benchmark/bench_scripts.h"
#include "ingot/benchmark/launch_breakdown.h"
#include "ingot/benchmark/model_shapes.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/models/language/config.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/cast.h"
#include "ingot/quant/packed_matrix.h"
#include "ingot/train/machine_limit.h"

namespace ingot::benchmark {
namespace {

// The format of a quantized base; empty for a dense one.
std::string packed_format(const LoraSetup& lora) {
  return lora.base == "f32" || lora.base == "bf16" ? std::string() : lora.base;
}

// Random parameters, drawn and rounded once for each shape: of a model of many billions this takes seconds.
// Each has memory of its own on the device.
class RepeatedSource final : public ParamProvider {
 public:
  RepeatedSource(const LoraSetup& lora, const std::string& dtype, Device device)
      : format_(packed_format(lora)),
        device_(device),
        init_(/*seed=*/1, parse_dtype(format_.empty() ? lora.base : dtype)) {}

  Tensor provide(const ParamRequest& request) override {
    Tensor& value = dense_[to_string(request.shape)];
    if (!value.defined()) value = init_.provide(request);
    return copied(value);
  }

  quant::PackedPtr provide_quantized(const std::string& name, const Shape& shape) override {
    if (format_.empty()) return nullptr;
    quant::PackedPtr& first = packed_[to_string(shape)];
    if (first == nullptr) {
      // As dense ones are drawn: with a deviation of 1 attention and the loss meet one-hot distributions, and
      // multiplying the subnormal numbers among their gradients takes half as long again.
      const Init init = init::Normal{.std = LanguageConfig().initializer_range};
      first = quant::quantize_and_pack(init_.provide({.name = name, .shape = shape, .init = init}), format_,
                                       name);
    }
    auto matrix = std::make_shared<quant::PackedMatrix>(*first);
    matrix->data = copied(first->data);
    return matrix;
  }
  bool trainable() const override { return false; }

 private:
  Tensor copied(const Tensor& value) const {
    return value.device() == device_ ? clone(value) : to(value, device_);
  }

  std::string format_;
  Device device_;
  InitSource init_;
  std::map<std::string, Tensor> dense_;
  std::map<std::string, quant::PackedPtr> packed_;
};

struct Times {
  std::vector<double> gradients, update, total;
  bool captured = false;
  double flops_per_token = 0, peak_memory_mib = 0;
  LaunchBreakdown breakdown;
  std::vector<TorchResult> peers;
};

void add_adapters(LanguageModel& model, const LoraConfig& lora, Device device) {
  const WeightMap map = LanguageModel::weight_map(model.config);
  InitSource adapters(/*seed=*/2, DType::f32, device);
  add_lora({model, map}, lora, adapters);
  train_adapter_only({model, map}, lora);
}

// A model whose weights train, or one with adapters; what trains it goes into `config`.
std::unique_ptr<LanguageModel> make_model(const TrainingOptions& o, Device device, TrainConfig& config) {
  const DType dtype = parse_dtype(o.dtype);
  if (!o.lora.has_value()) {
    InitSource source(1, dtype, device);
    return std::make_unique<LanguageModel>(shape_config(o.shape, dtype), source);
  }
  RepeatedSource source(*o.lora, o.dtype, device);
  auto model = std::make_unique<LanguageModel>(shape_config(o.shape, dtype), source);
  LoraConfig lora{.r = o.lora->rank, .lora_alpha = 2 * static_cast<double>(o.lora->rank)};
  lora.target_modules = {"all-linear"};
  add_adapters(*model, lora, device);
  config.adapter = {.enabled = true, .lora = lora, .base_format = packed_format(*o.lora)};
  config.dtype = model->config.dtype;
  return model;
}

// After each step `between`: one of every baseline, so that a noisy moment of the machine meets all of them.
// The model is gone when this returns.
Times run_ours(const TrainingOptions& o, ComputeBackend& on, FunctionRef<void()> between) {
  TrainConfig config;
  config.cuda_graphs = o.graphs;
  config.optimizer.name = o.optimizer;
  const auto model = make_model(o, on.device(), config);
  model->recompute = o.recompute;
  TrainingStep step(*model, o.batches, config);
  Times times;
  for (std::int64_t i = 0; i < o.runs + 2; ++i) {
    const TrainingStep::Seconds seconds = step.take();
    if (i < 2) continue;  // memory is allocated, pages are touched, a graph is captured
    times.gradients.push_back(seconds.gradients);
    times.update.push_back(seconds.update);
    times.total.push_back(seconds.total);
    between();
  }
  times.captured = step.captured();
  // With adapters there are no gradients of the base's weights; the adapters' own matmuls are not counted.
  times.flops_per_token =
      model->config.training_flops_per_token(o.batches.sequence) * (o.lora.has_value() ? 2.0 / 3 : 1);
  times.peak_memory_mib = peak_memory_mib(on);
  if (o.breakdown) times.breakdown = break_down([&] { return step.take().total; });
  return times;
}

std::vector<std::string> torch_arguments(const TrainingOptions& o, Device device) {
  std::vector<std::string> arguments{"--shape",      o.shape,
                                     "--batch",      std::to_string(o.batches.batch),
                                     "--sequence",   std::to_string(o.batches.sequence),
                                     "--accumulate", std::to_string(o.batches.count),
                                     "--dtype",      o.dtype,
                                     "--weights",    o.torch_weights,
                                     "--device",     to_string(device)};
  if (o.lora.has_value()) {
    arguments.emplace_back("--lora-rank");
    arguments.push_back(std::to_string(o.lora->rank));
    if (o.lora->base != "f32" && o.lora->base != "bf16") arguments.emplace_back("--load-in-4bit");
  }
  if (o.recompute == Recompute::full) arguments.emplace_back("--recompute");
  return arguments;
}

Times run_in_turn(const TrainingOptions& o, ComputeBackend& on) {
  TorchPeers peers(o.torch, bench_scripts::train_torch(), torch_arguments(o, on.device()));
  Times times = run_ours(o, on, [&] { peers.run_once(); });
  times.peers = peers.results(times.total);
  return times;
}

// Each baseline has the memory that the one before it has left.
Times run_apart(const TrainingOptions& o, ComputeBackend& on) {
  Times times = run_ours(o, on, [] {});
  on.trim();
  for (const std::string& name : o.torch.against) {
    TorchPeers peer({.against = {name}, .python = o.torch.python}, bench_scripts::train_torch(),
                    torch_arguments(o, on.device()));
    for (std::int64_t i = 0; i < o.runs; ++i) peer.run_once();
    times.peers.push_back(peer.results(times.total).front());
  }
  return times;
}

nlohmann::ordered_json to_json(const TrainingOptions& o, const ComputeBackend& on, const Times& times,
                               double matmul_flops) {
  const double step = median(times.total), rate = static_cast<double>(o.batches.tokens()) / step;
  nlohmann::ordered_json json{{"work", o.lora.has_value() ? "finetune" : "train"}, {"shape", o.shape}};
  if (o.lora.has_value()) {
    json["base"] = o.lora->base;
    json["rank"] = o.lora->rank;
  }
  const nlohmann::ordered_json rest{
      {"batch", o.batches.batch},
      {"sequence", o.batches.sequence},
      {"accumulate", o.batches.count},
      {"captured", times.captured},
      {"recompute", name(o.recompute)},
      {"optimizer", o.optimizer},
      {"dtype", o.dtype},
      {"device", on.capabilities().device_name},
      {"threads", num_threads()},
      {"step_ms", step * 1e3},
      {"tokens_per_second", rate},
      {"gflops", times.flops_per_token * rate * 1e-9},
      {"matmul_gflops", matmul_flops * 1e-9},
      {"peak_memory_mib", times.peak_memory_mib},
      {"peers", parse_json<nlohmann::ordered_json>(benchmark::to_json(times.peers), "PyTorch's results")}};
  json.update(rest);
  if (!on.capabilities().streams) {  // else these are the times of putting work into a queue
    json["gradients_ms"] = median(times.gradients) * 1e3;
    json["update_ms"] = median(times.update) * 1e3;
  }
  const auto& peaks = on.capabilities().peak_flops;
  if (const auto peak = peaks.find(parse_dtype(o.dtype)); peak != peaks.end() && peak->second > 0)
    json["peak_gflops"] = peak->second * 1e-9;
  if (o.breakdown)
    json["breakdown"] =
        parse_json<nlohmann::ordered_json>(benchmark::to_json(times.breakdown), "the breakdown");
  return json;
}

std::string text_of(const TrainingOptions& o, const nlohmann::ordered_json& json) {
  const auto number = [&](const char* key) { return json.at(key).get<double>(); };
  const double share = 100 * number("gflops") / number("matmul_gflops");
  std::string text = fmt::format(
      "{}{}, batch {} x {}{}{}{}, {}, {}, {} threads, median of {} steps\n", o.shape,
      o.lora.has_value()
          ? fmt::format(", LoRA of rank {} on all linear layers, base in {}", o.lora->rank, o.lora->base)
          : "",
      o.batches.batch, o.batches.sequence, o.batches.count > 1 ? fmt::format(" x {}", o.batches.count) : "",
      json.at("captured").get<bool>() ? ", captured" : "",
      o.recompute == Recompute::none ? "" : fmt::format(", recompute: {}", name(o.recompute)), o.dtype,
      json.at("device").get<std::string>(), num_threads(), o.runs);
  text += fmt::format("  step      {:>8.1f} ms   {}/s tokens, peak memory {:.0f} MiB\n", number("step_ms"),
                      human_count(number("tokens_per_second")), number("peak_memory_mib"));
  if (json.contains("gradients_ms"))
    text += fmt::format(
        "  gradients {:>8.1f} ms   (forward, backward, their norm)\n  update    {:>8.1f} ms   (AdamW)\n",
        number("gradients_ms"), number("update_ms"));
  text += fmt::format("  {:.0f} GFLOP/s = {:.0f} % of the {:.0f} GFLOP/s that {} matmuls reach here\n",
                      number("gflops"), share, number("matmul_gflops"), o.dtype);
  if (json.contains("peak_gflops"))
    text += fmt::format("  {:.0f} % of the {:.0f} GFLOP/s of its data sheet\n",
                        100 * number("gflops") / number("peak_gflops"), number("peak_gflops"));
  return text;
}

}  // namespace

Report time_training(const TrainingOptions& o) {
  ComputeBackend& on = backend(choose_device(o.device));
  const double limit = measure_matmul_flops(parse_dtype(o.dtype), on.device());
  const Times times = o.apart ? run_apart(o, on) : run_in_turn(o, on);
  const nlohmann::ordered_json json = to_json(o, on, times, limit);
  Report report{.text = text_of(o, json) + describe(times.peers), .json = dump_json(json, 2)};
  if (o.breakdown) report.text += describe(times.breakdown, "of a step");
  return report;
}

}  // namespace ingot::benchmark
