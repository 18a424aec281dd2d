#include "ingot/cli/bench.h"

#include <algorithm>
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
#include "ingot/cli/commands.h"
#include "ingot/cli/launch_breakdown.h"
#include "ingot/cli/model_shapes.h"
#include "ingot/cli/torch_peer.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/param_source.h"
#include "ingot/train/machine_limit.h"

namespace ingot::cli {
namespace {

struct TrainBenchOptions {
  std::string shape = "gpt2", dtype = "f32", device = "cpu", torch_weights = "f32", optimizer = "adamw";
  std::int64_t batch = 4, sequence = 64, accumulate = 1, runs = 7;
  TorchOptions torch;
  std::optional<std::string> recompute;
  bool apart = false, graphs = false, breakdown = false, json = false;

  std::int64_t tokens() const { return batch * sequence * accumulate; }
  Recompute recomputed() const {
    return recompute.has_value() ? parse_recompute(*recompute, "--recompute") : Recompute::none;
  }
};

TrainConfig config_of(const TrainBenchOptions& o) {
  TrainConfig config;
  config.cuda_graphs = o.graphs;
  config.optimizer.name = o.optimizer;
  return config;
}

struct TrainTimes {
  std::vector<double> gradients, update, total;
  bool captured = false;
  LaunchBreakdown breakdown;
};

// After each step `between`: one of every peer, so that a noisy moment of the machine meets all of them.
TrainTimes run_steps(const TrainBenchOptions& o, LanguageModel& model, FunctionRef<void()> between) {
  BenchStep step(model, {.batch = o.batch, .sequence = o.sequence, .count = o.accumulate}, config_of(o));
  TrainTimes times;
  for (std::int64_t i = 0; i < o.runs + 2; ++i) {
    const BenchStep::Seconds seconds = step.take();
    if (i < 2) continue;  // memory is allocated, pages are touched, a graph is captured
    times.gradients.push_back(seconds.gradients);
    times.update.push_back(seconds.update);
    times.total.push_back(seconds.total);
    between();
  }
  times.captured = step.captured();
  if (o.breakdown) times.breakdown = break_down([&] { return step.take().total; });
  return times;
}

void print_result(const TrainBenchOptions& o, const nlohmann::ordered_json& result,
                  const std::vector<TorchResult>& peers) {
  const auto number = [&](const char* key) { return result.at(key).get<double>(); };
  const auto recompute = result.at("recompute").get<std::string>();
  fmt::print("{}, batch {} x {}{}{}{}, {}, {}, {} threads, median of {} steps\n", o.shape, o.batch,
             o.sequence, o.accumulate > 1 ? fmt::format(" x {}", o.accumulate) : "",
             result.at("captured").get<bool>() ? ", captured" : "",
             recompute == "false" ? "" : ", recompute: " + recompute, o.dtype,
             result.at("device").get<std::string>(), num_threads(), o.runs);
  fmt::print("  step      {:>8.1f} ms   {}/s tokens, peak memory {:.0f} MiB\n", number("step_ms"),
             human_count(static_cast<double>(o.tokens()) / number("step_ms") * 1e3),
             number("peak_memory_mib"));
  if (result.contains("gradients_ms"))
    fmt::print(
        "  gradients {:>8.1f} ms   (forward, backward, their norm)\n  update    {:>8.1f} ms   (AdamW)\n",
        number("gradients_ms"), number("update_ms"));
  fmt::print("  {:.0f} GFLOP/s = {:.0f} % of the {:.0f} GFLOP/s that {} matmuls reach here\n",
             number("gflops"), 100 * number("gflops") / number("matmul_gflops"), number("matmul_gflops"),
             o.dtype);
  if (result.contains("peak_gflops"))
    fmt::print("  {:.0f} % of the {:.0f} GFLOP/s of its data sheet\n",
               100 * number("gflops") / number("peak_gflops"), number("peak_gflops"));
  fmt::print("{}", describe(peers));
}

std::vector<std::string> torch_arguments(const TrainBenchOptions& o, Device device) {
  std::vector<std::string> arguments{"--shape",      o.shape,
                                     "--batch",      std::to_string(o.batch),
                                     "--sequence",   std::to_string(o.sequence),
                                     "--accumulate", std::to_string(o.accumulate),
                                     "--dtype",      o.dtype,
                                     "--weights",    o.torch_weights,
                                     "--device",     to_string(device)};
  if (o.recomputed() == Recompute::full) arguments.emplace_back("--recompute");
  return arguments;
}

// What a bench of training steps found.
struct TrainResult {
  TrainTimes times;
  double flops_per_token = 0, peak_memory_mib = 0;
  std::vector<TorchResult> peers;
};

// Our steps; the model is gone when this returns.
TrainResult run_ours(const TrainBenchOptions& o, ComputeBackend& on, FunctionRef<void()> between) {
  const DType dtype = parse_dtype(o.dtype);
  InitSource source(1, dtype, on.device());
  LanguageModel model(shape_config(o.shape, dtype), source);
  model.recompute = o.recomputed();
  TrainResult result;
  result.times = run_steps(o, model, between);
  result.flops_per_token = model.config.training_flops_per_token(o.sequence);
  result.peak_memory_mib =
      on.device().is_cpu() ? peak_memory_mib() : static_cast<double>(on.memory().peak()) / (1 << 20);
  return result;
}

TrainResult run_in_turn(const TrainBenchOptions& o, ComputeBackend& on) {
  TorchPeers peers(o.torch, bench_scripts::train_torch(), torch_arguments(o, on.device()));
  TrainResult result = run_ours(o, on, [&] { peers.run_once(); });
  result.peers = peers.results(result.times.total);
  return result;
}

// Each peer has the memory that the one before it has left.
TrainResult run_apart(const TrainBenchOptions& o, ComputeBackend& on) {
  TrainResult result = run_ours(o, on, [] {});
  on.trim();
  for (const std::string& name : o.torch.against) {
    TorchPeers peer({.against = {name}, .python = o.torch.python}, bench_scripts::train_torch(),
                    torch_arguments(o, on.device()));
    for (std::int64_t i = 0; i < o.runs; ++i) peer.run_once();
    result.peers.push_back(peer.results(result.times.total).front());
  }
  return result;
}

void check(const TrainBenchOptions& o) {
  for (const auto& [option, value] : {std::pair{"--batch", o.batch},
                                      {"--sequence", o.sequence},
                                      {"--accumulate", o.accumulate},
                                      {"--runs", o.runs}}) {
    INGOT_CHECK(value > 0, InvalidConfig(option, fmt::format("must be at least 1, got {}", value)));
  }
  INGOT_CHECK(!o.graphs || !o.breakdown,
              InvalidConfig("--breakdown",
                            "kernels of a captured step are not launched one by one; leave "
                            "--graphs out"));
}

int run(const TrainBenchOptions& o) {
  check(o);
  const DType dtype = parse_dtype(o.dtype);
  ComputeBackend& on = backend(choose_device(o.device));
  const double limit = measure_matmul_flops(dtype, on.device());
  const TrainResult found = o.apart ? run_apart(o, on) : run_in_turn(o, on);
  const TrainTimes& times = found.times;
  const double step = median(times.total);
  const double flops = found.flops_per_token * static_cast<double>(o.tokens()) / step;
  nlohmann::ordered_json result{
      {"shape", o.shape},
      {"batch", o.batch},
      {"sequence", o.sequence},
      {"accumulate", o.accumulate},
      {"captured", times.captured},
      {"recompute", name(o.recomputed())},
      {"optimizer", o.optimizer},
      {"dtype", o.dtype},
      {"device", on.capabilities().device_name},
      {"threads", num_threads()},
      {"step_ms", step * 1e3},
      {"gflops", flops * 1e-9},
      {"matmul_gflops", limit * 1e-9},
      {"peak_memory_mib", found.peak_memory_mib},
      {"peers", parse_json<nlohmann::ordered_json>(to_json(found.peers), "PyTorch's results")}};
  if (!on.capabilities().streams) {  // else these are the times of putting work into a queue
    result["gradients_ms"] = median(times.gradients) * 1e3;
    result["update_ms"] = median(times.update) * 1e3;
  }
  const auto& peaks = on.capabilities().peak_flops;
  if (const auto peak = peaks.find(dtype); peak != peaks.end() && peak->second > 0)
    result["peak_gflops"] = peak->second * 1e-9;
  if (o.breakdown)
    result["breakdown"] = parse_json<nlohmann::ordered_json>(to_json(times.breakdown), "the breakdown");
  if (o.json) {
    fmt::print("{}\n", dump_json(result, 2));
    return 0;
  }
  print_result(o, result, found.peers);
  if (o.breakdown) fmt::print("{}", describe(times.breakdown, "of a step"));
  return 0;
}

void add_bench_train(Command& bench) {
  auto o = std::make_shared<TrainBenchOptions>();
  Command command =
      bench.subcommand("train", "Time whole training steps, against what matmuls alone reach here");
  command.option("--shape", o->shape, "gpt2 (124M parameters), demo, or a model's of that name")
      .one_of(shape_names());
  add_device_option(command, o->device);
  command.option("--batch", o->batch, "Sequences in a batch");
  command.option("--sequence", o->sequence, "Tokens in a sequence");
  command.option("--dtype", o->dtype, "What weights and activations are: f32 or bf16 (PyTorch: autocast)")
      .one_of({"f32", "bf16"});
  command.option("--optimizer", o->optimizer, "adamw, or adamw_8bit with moments in 8 bits (PyTorch: adamw)")
      .one_of({"adamw", "adamw_8bit"});
  command.option("--runs", o->runs, "Steps to take the median of");
  add_torch_options(command, o->torch);
  command
      .option("--torch-weights", o->torch_weights,
              "What PyTorch keeps weights, gradients and moments in: f32, or bf16 and no master weights, a "
              "half of the memory")
      .one_of({"f32", "bf16"});
  command.flag(
      "--apart", o->apart,
      "PyTorch behind our steps, in the memory that they leave, and not in turn: for models that fit once");
  command.option("--accumulate", o->accumulate, "Batches whose gradients are added up for one step");
  command.flag("--graphs", o->graphs, "Capture the step as a CUDA graph, as cuda_graphs does in a training");
  command
      .option("--recompute", o->recompute,
              "What the backward pass makes again instead of keeping it: selective (norms, activations), or "
              "full (whole layers; PyTorch does so, too)")
      .one_of(recompute_words())
      .alone("full");
  command.flag("--breakdown", o->breakdown, "One more step that shows where its time goes, kernel by kernel");
  command.flag("--json", o->json, "Print JSON");
  command.example("ingot bench train --batch 1 --sequence 1024", "a long sequence");
  command.example("ingot bench train --against torch --against torch.compile --python ~/venv/bin/python",
                  "both programs and the ratio of their steps, in one run");
  command.example("ingot bench train --device cuda --dtype bf16 --shape llama-1b --batch 2 --sequence 4096",
                  "a GPU");
  command.example(
      "ingot bench train --device cuda --dtype bf16 --shape qwen3-8b --sequence 4096 --batch 1 --accumulate "
      "8 "
      "--against torch --torch-weights bf16 --apart",
      "a model that fills the GPU");
  command.example("ingot bench train --device cuda --shape demo --graphs",
                  "a model whose steps are all launches");
  command.run([o] { return run(*o); });
}

}  // namespace

void add_bench(Command& root) {
  Command bench = root.subcommand("bench", "Time training and inference against what the machine allows");
  add_bench_train(bench);
  add_bench_finetune(bench);
  add_bench_policy(bench);
  add_bench_selfplay(bench);
  add_bench_inference(bench);
  add_bench_matmul(bench);
  add_bench_kernels(bench);
  add_bench_products(bench);
  add_bench_serve(bench);
}

}  // namespace ingot::cli
