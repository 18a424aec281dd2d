#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/units.h"
#include "ingot/cli/arguments.h"
#include "ingot/cli/bench_scripts.h"
#include "ingot/cli/bench_step.h"
#include "ingot/cli/launch_breakdown.h"
#include "ingot/cli/model_shapes.h"
#include "ingot/cli/torch_peer.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/models/adapter/lora.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/cast.h"
#include "ingot/quant/packed_matrix.h"
#include "ingot/train/machine_limit.h"

namespace ingot::cli {
namespace {

struct FinetuneBenchOptions {
  std::string shape = "qwen3-0.6b", base = "bf16", dtype = "bf16", device = "cpu", optimizer = "adamw";
  BenchBatches batches{.batch = 2, .sequence = 2048, .count = 4};
  std::int64_t rank = 16, runs = 5;
  std::optional<std::string> recompute;
  TorchOptions torch;
  bool graphs = false, breakdown = false, json = false;

  bool quantizes_base() const { return base != "f32" && base != "bf16"; }
  Recompute recomputed() const {
    return recompute.has_value() ? parse_recompute(*recompute, "--recompute") : Recompute::none;
  }
};

// Random parameters, drawn and rounded once for each shape: of a model of many billions this takes seconds.
// Each has memory of its own on the device.
class RepeatedSource final : public ParamProvider {
 public:
  RepeatedSource(const FinetuneBenchOptions& o, Device device)
      : format_(o.quantizes_base() ? o.base : ""),
        device_(device),
        init_(/*seed=*/1, parse_dtype(o.quantizes_base() ? o.dtype : o.base)) {}

  Tensor provide(const ParamRequest& request) override {
    Tensor& value = dense_[to_string(request.shape)];
    if (!value.defined()) value = init_.provide(request);
    return device_.is_cpu() ? clone(value) : to(value, device_);
  }

  quant::PackedPtr provide_quantized(const std::string& name, const Shape& shape) override {
    if (format_.empty()) return nullptr;
    quant::PackedPtr& first = packed_[to_string(shape)];
    if (first == nullptr) {
      const Init init = init::Normal{};
      first = quant::quantize_and_pack(init_.provide({.name = name, .shape = shape, .init = init}), format_,
                                       name);
    }
    auto matrix = std::make_shared<quant::PackedMatrix>(*first);
    matrix->data = device_.is_cpu() ? clone(first->data) : to(first->data, device_);
    return matrix;
  }
  bool trainable() const override { return false; }

 private:
  std::string format_;
  Device device_;
  InitSource init_;
  std::map<std::string, Tensor> dense_;
  std::map<std::string, quant::PackedPtr> packed_;
};

struct FinetuneTimes {
  std::vector<double> seconds;
  bool captured = false;
  double flops_per_token = 0, peak_memory_mib = 0;
  LaunchBreakdown breakdown;
};

FinetuneTimes run_ours(const FinetuneBenchOptions& o, ComputeBackend& on, FunctionRef<void()> between) {
  RepeatedSource source(o, on.device());
  LanguageModel model(shape_config(o.shape, parse_dtype(o.dtype)), source);
  model.recompute = o.recomputed();
  const WeightMap map = LanguageModel::weight_map(model.config);
  LoraConfig lora{.r = o.rank, .lora_alpha = 2 * static_cast<double>(o.rank)};
  lora.target_modules = {"all-linear"};
  InitSource adapters(/*seed=*/2, DType::f32, on.device());
  add_lora({model, map}, lora, adapters);
  train_adapter_only({model, map}, lora);
  TrainConfig config;
  config.adapter = {.enabled = true, .lora = lora, .base_format = o.quantizes_base() ? o.base : ""};
  config.dtype = model.config.dtype;
  config.cuda_graphs = o.graphs;
  config.optimizer.name = o.optimizer;
  BenchStep step(model, o.batches, config);
  FinetuneTimes times;
  for (std::int64_t i = 0; i < o.runs + 2; ++i) {
    const double seconds = step.take().total;
    if (i < 2) continue;  // memory is allocated, pages are touched, a graph is captured
    times.seconds.push_back(seconds);
    between();
  }
  times.captured = step.captured();
  // No gradients of the base's weights; the adapters' own matmuls are not counted.
  times.flops_per_token = model.config.training_flops_per_token(o.batches.sequence) * 2 / 3;
  times.peak_memory_mib =
      on.device().is_cpu() ? peak_memory_mib() : static_cast<double>(on.memory().peak()) / (1 << 20);
  if (o.breakdown) times.breakdown = break_down([&] { return step.take().total; });
  return times;
}

std::vector<std::string> torch_arguments(const FinetuneBenchOptions& o, Device device) {
  std::vector<std::string> arguments{"--shape",      o.shape,
                                     "--batch",      std::to_string(o.batches.batch),
                                     "--sequence",   std::to_string(o.batches.sequence),
                                     "--accumulate", std::to_string(o.batches.count),
                                     "--dtype",      o.dtype,
                                     "--weights",    o.base == "f32" ? "f32" : "bf16",
                                     "--device",     to_string(device),
                                     "--lora-rank",  std::to_string(o.rank)};
  if (o.recomputed() == Recompute::full) arguments.emplace_back("--recompute");
  return arguments;
}

void check(const FinetuneBenchOptions& o) {
  for (const auto& [option, value] : {std::pair{"--batch", o.batches.batch},
                                      {"--sequence", o.batches.sequence},
                                      {"--accumulate", o.batches.count},
                                      {"--rank", o.rank},
                                      {"--runs", o.runs}}) {
    INGOT_CHECK(value > 0, InvalidConfig(option, fmt::format("must be at least 1, got {}", value)));
  }
  INGOT_CHECK(!o.graphs || !o.breakdown,
              InvalidConfig("--breakdown",
                            "kernels of a captured step are not launched one by one; leave "
                            "--graphs out"));
}

int run(const FinetuneBenchOptions& o) {
  check(o);
  ComputeBackend& on = backend(choose_device(o.device));
  const double limit = measure_matmul_flops(parse_dtype(o.dtype), on.device());
  TorchPeers peers(o.torch, bench_scripts::train_torch(), torch_arguments(o, on.device()));
  const FinetuneTimes times = run_ours(o, on, [&] { peers.run_once(); });
  const std::vector<TorchResult> beside = peers.results(times.seconds);
  const double step = median(times.seconds);
  const double rate = static_cast<double>(o.batches.tokens()) / step;
  const double flops = times.flops_per_token * rate;
  if (o.json) {
    nlohmann::ordered_json json{
        {"work", "finetune"},
        {"shape", o.shape},
        {"base", o.base},
        {"rank", o.rank},
        {"batch", o.batches.batch},
        {"sequence", o.batches.sequence},
        {"accumulate", o.batches.count},
        {"captured", times.captured},
        {"recompute", name(o.recomputed())},
        {"optimizer", o.optimizer},
        {"dtype", o.dtype},
        {"device", on.capabilities().device_name},
        {"threads", num_threads()},
        {"step_ms", step * 1e3},
        {"tokens_per_second", rate},
        {"gflops", flops * 1e-9},
        {"matmul_gflops", limit * 1e-9},
        {"peak_memory_mib", times.peak_memory_mib},
        {"peers", parse_json<nlohmann::ordered_json>(to_json(beside), "PyTorch's results")}};
    if (o.breakdown)
      json["breakdown"] = parse_json<nlohmann::ordered_json>(to_json(times.breakdown), "the breakdown");
    fmt::print("{}\n", dump_json(json, 2));
    return 0;
  }
  fmt::print(
      "{}, LoRA of rank {} on all linear layers, base in {}, batch {} x {} x {}, {}, {}, {} threads, median "
      "of {}\n",
      o.shape, o.rank, o.base, o.batches.batch, o.batches.sequence, o.batches.count, o.dtype,
      on.capabilities().device_name, num_threads(), o.runs);
  fmt::print("  step      {:>8.1f} ms   {}/s tokens, peak memory {:.0f} MiB\n", step * 1e3, human_count(rate),
             times.peak_memory_mib);
  fmt::print("  {:.0f} GFLOP/s = {:.0f} % of the {:.0f} GFLOP/s that {} matmuls reach here\n", flops * 1e-9,
             100 * flops / limit, limit * 1e-9, o.dtype);
  fmt::print("{}", describe(beside));
  if (o.breakdown) fmt::print("{}", describe(times.breakdown, "of a step"));
  return 0;
}

}  // namespace

void add_bench_finetune(Command& bench) {
  auto o = std::make_shared<FinetuneBenchOptions>();
  Command command =
      bench.subcommand("finetune", "Time steps of LoRA and QLoRA, against what matmuls alone reach here");
  command.option("--shape", o->shape, "The base: a model of random weights with that one's shape")
      .one_of(shape_names());
  std::vector<std::string> bases = quant::quantized_formats();
  bases.insert(bases.begin(), {"f32", "bf16"});
  command
      .option("--base", o->base, "What the base's matrices are: bf16, or quantized (QLoRA): nf4, q4_k, ...")
      .one_of(bases);
  command.option("--rank", o->rank, "Of the adapters, which are on all linear layers");
  add_device_option(command, o->device);
  command.option("--batch", o->batches.batch, "Sequences in a batch");
  command.option("--sequence", o->batches.sequence, "Tokens in a sequence");
  command.option("--accumulate", o->batches.count, "Batches whose gradients are added up for one step");
  command.option("--dtype", o->dtype, "What activations are: f32 or bf16").one_of({"f32", "bf16"});
  command.option("--optimizer", o->optimizer, "adamw, or adamw_8bit with moments in 8 bits (PEFT: adamw)")
      .one_of({"adamw", "adamw_8bit"});
  command.option("--runs", o->runs, "Steps to take the median of");
  add_torch_options(command, o->torch);
  command.flag("--graphs", o->graphs, "Capture the step as a CUDA graph, as cuda_graphs does in a training");
  command
      .option("--recompute", o->recompute,
              "What the backward pass makes again instead of keeping it: selective (norms, activations), or "
              "full (whole layers; PEFT does so, too)")
      .one_of(recompute_words())
      .alone("full");
  command.flag("--breakdown", o->breakdown, "One more step that shows where its time goes, kernel by kernel");
  command.flag("--json", o->json, "Print JSON");
  command.example("ingot bench finetune --batch 1 --sequence 512 --accumulate 1 --base nf4", "QLoRA");
  command.example(
      "ingot bench finetune --batch 1 --sequence 512 --accumulate 1 --against torch --python "
      "~/venv/bin/python",
      "in turn with PEFT on PyTorch");
  command.example("ingot bench finetune --device cuda --shape qwen3-8b", "a GPU");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
