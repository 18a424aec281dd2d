#include "ingot/cli/bench.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/stopwatch.h"
#include "ingot/base/units.h"
#include "ingot/cli/bench_scripts.h"
#include "ingot/cli/launch_breakdown.h"
#include "ingot/cli/torch_peer.h"
#include "ingot/cli/verbs.h"
#include "ingot/core/backend.h"
#include "ingot/models/language/decoder.h"
#include "ingot/nn/param_source.h"
#include "ingot/ops/cast.h"
#include "ingot/train/machine_limit.h"
#include "ingot/train/optimizer_setup.h"

namespace ingot::cli {
namespace {

struct TrainBenchOptions {
  std::string shape = "gpt2", dtype = "f32", device = "cpu";
  std::int64_t batch = 4, sequence = 64, runs = 7;
  TorchOptions torch;
  bool recompute = false, breakdown = false, json = false;
};

// The shapes of Llama 3.2 1B and Qwen3 8B.
void set_large_shape(LanguageConfig& c) {
  const bool qwen = c.model_type == "qwen3";
  c.vocab_size = qwen ? 151936 : 128256;
  c.hidden_size = qwen ? 4096 : 2048;
  c.intermediate_size = qwen ? 12288 : 8192;
  c.num_hidden_layers = qwen ? 36 : 16;
  c.num_attention_heads = 32;
  c.num_key_value_heads = 8;
  c.head_dim = qwen ? 128 : 64;
  c.max_position_embeddings = 40960;
  c.rope_theta = qwen ? 1e6 : 5e5;
  c.tie_word_embeddings = !qwen;
}

LanguageConfig shape_config(const std::string& shape, DType dtype) {
  LanguageConfig c;
  c.dtype = dtype;
  c.model_type = shape == "gpt2" ? "gpt2" : shape == "qwen3-8b" ? "qwen3" : "llama";
  apply_family(c);
  if (shape == "llama-1b" || shape == "qwen3-8b") {
    set_large_shape(c);
    return c;
  }
  if (shape == "gpt2") {  // 124M
    c.vocab_size = 50257;
    c.hidden_size = 768;
    c.intermediate_size = 3072;
    c.num_hidden_layers = c.num_attention_heads = 12;
    c.max_position_embeddings = 1024;
    return c;
  }
  c.vocab_size = 2048;  // the demo's
  c.hidden_size = 192;
  c.intermediate_size = 512;
  c.num_hidden_layers = c.num_attention_heads = 6;
  c.num_key_value_heads = 2;
  return c;
}

struct StepSeconds {
  double forward = 0, backward = 0, update = 0, total = 0;
};

StepSeconds timed_step(LanguageModel& model, const Tensor& tokens, TrainOptimizer& optimizer,
                       std::int64_t step) {
  const Stopwatch watch;
  const Tensor loss = model.loss({.tokens = tokens}, tokens);
  const double forward = watch.seconds();
  backward(loss);
  const double back = watch.seconds();
  optimizer.apply(step, optimizer.measure_gradients().factor);
  backend(tokens.device()).synchronize(current_stream(tokens.device()));
  const double end = watch.seconds();
  return {forward, back - forward, end - back, end};
}

struct TrainTimes {
  std::vector<double> forward, backward, update, total;
  LaunchBreakdown breakdown;
};

// A step of ours and one of every peer, in turn, so that a noisy moment of the machine meets all of them.
TrainTimes run_steps(const TrainBenchOptions& o, LanguageModel& model, const Tensor& tokens,
                     TorchPeers& peers) {
  TrainConfig config;
  TrainOptimizer optimizer(model, config, 1000);
  TrainTimes times;
  for (std::int64_t i = 0; i < o.runs + 2; ++i) {
    const StepSeconds step = timed_step(model, tokens, optimizer, i);
    if (i < 2) continue;  // memory is allocated, pages are touched
    times.forward.push_back(step.forward);
    times.backward.push_back(step.backward);
    times.update.push_back(step.update);
    times.total.push_back(step.total);
    peers.run_once();
  }
  if (o.breakdown) {
    times.breakdown = break_down([&] { return timed_step(model, tokens, optimizer, o.runs + 2).total; });
  }
  return times;
}

void print_result(const TrainBenchOptions& o, const nlohmann::ordered_json& result,
                  const std::vector<TorchResult>& peers) {
  const auto number = [&](const char* key) { return result.at(key).get<double>(); };
  fmt::print("{}, batch {} x {}, {}, {}, {} threads, median of {} steps\n", o.shape, o.batch, o.sequence,
             o.dtype, result.at("device").get<std::string>(), num_threads(), o.runs);
  fmt::print("  step      {:>8.1f} ms   {}/s tokens, peak memory {:.0f} MiB\n", number("step_ms"),
             human_count(static_cast<double>(o.batch * o.sequence) / number("step_ms") * 1e3),
             number("peak_memory_mib"));
  if (result.contains("forward_ms"))
    fmt::print("  forward   {:>8.1f} ms\n  backward  {:>8.1f} ms\n  update    {:>8.1f} ms   (clip, AdamW)\n",
               number("forward_ms"), number("backward_ms"), number("update_ms"));
  fmt::print("  {:.0f} GFLOP/s = {:.0f} % of the {:.0f} GFLOP/s that {} matrix products reach here\n",
             number("gflops"), 100 * number("gflops") / number("matmul_gflops"), number("matmul_gflops"),
             o.dtype);
  if (result.contains("peak_gflops"))
    fmt::print("  {:.0f} % of the {:.0f} GFLOP/s of its data sheet\n",
               100 * number("gflops") / number("peak_gflops"), number("peak_gflops"));
  fmt::print("{}", describe(peers));
}

int run(const TrainBenchOptions& o) {
  for (const auto& [option, value] :
       {std::pair{"--batch", o.batch}, {"--sequence", o.sequence}, {"--runs", o.runs}}) {
    INGOT_CHECK(value > 0, InvalidConfig(option, fmt::format("must be at least 1, got {}", value)));
  }
  const DType dtype = parse_dtype(o.dtype);
  ComputeBackend& on = backend(parse_device(o.device));
  const double limit = measure_matmul_flops(dtype, on.device());
  std::vector<std::string> arguments{
      "--shape", o.shape, "--batch",  std::to_string(o.batch), "--sequence", std::to_string(o.sequence),
      "--dtype", o.dtype, "--device", to_string(on.device())};
  if (o.recompute) arguments.emplace_back("--recompute");
  TorchPeers peers(o.torch, bench_scripts::train_torch(), arguments);
  InitSource source(1, dtype, on.device());
  LanguageModel model(shape_config(o.shape, dtype), source);
  model.recompute = o.recompute;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(o.batch * o.sequence));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int32_t>(i * 7919 % static_cast<std::size_t>(model.config.vocab_size));
  }
  const Tensor tokens = to(Tensor::from(ids, {o.batch, o.sequence}), on.device());
  const TrainTimes times = run_steps(o, model, tokens, peers);
  const double step = median(times.total);
  const double flops =
      model.config.training_flops_per_token(o.sequence) * static_cast<double>(ids.size()) / step;
  const std::vector<TorchResult> results = peers.results(times.total);
  nlohmann::ordered_json result{
      {"shape", o.shape},
      {"batch", o.batch},
      {"sequence", o.sequence},
      {"dtype", o.dtype},
      {"device", on.capabilities().device_name},
      {"threads", num_threads()},
      {"step_ms", step * 1e3},
      {"gflops", flops * 1e-9},
      {"matmul_gflops", limit * 1e-9},
      {"peak_memory_mib",
       on.device().is_cpu() ? peak_memory_mib() : static_cast<double>(on.memory().peak()) / (1 << 20)},
      {"peers", parse_json<nlohmann::ordered_json>(to_json(results), "PyTorch's results")}};
  if (!on.capabilities().streams) {  // else these are the times of putting work into a queue
    result["forward_ms"] = median(times.forward) * 1e3;
    result["backward_ms"] = median(times.backward) * 1e3;
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
  print_result(o, result, results);
  if (o.breakdown) fmt::print("{}", describe(times.breakdown, "of a step"));
  return 0;
}

void add_bench_train(Command& bench) {
  auto o = std::make_shared<TrainBenchOptions>();
  Command verb =
      bench.verb("train", "Time whole training steps, against what matrix products alone reach here");
  verb.option("--shape", o->shape, "gpt2 (124M parameters), demo, or those of Llama 3.2 1B and Qwen3 8B")
      .one_of({"gpt2", "demo", "llama-1b", "qwen3-8b"});
  verb.option("--device", o->device, "cpu, cuda or cuda:1");
  verb.option("--batch", o->batch, "Sequences in a batch");
  verb.option("--sequence", o->sequence, "Tokens in a sequence");
  verb.option("--dtype", o->dtype, "What weights and activations are: f32 or bf16 (PyTorch: autocast)")
      .one_of({"f32", "bf16"});
  verb.option("--runs", o->runs, "Steps to take the median of");
  add_torch_options(verb, o->torch);
  verb.flag("--recompute", o->recompute,
            "Run each layer again in the backward pass instead of keeping its results");
  verb.flag("--breakdown", o->breakdown, "One more step that shows where its time goes, kernel by kernel");
  verb.flag("--json", o->json, "Print JSON");
  verb.example("ingot bench train --batch 1 --sequence 1024", "a long sequence");
  verb.example("ingot bench train --against torch --against torch.compile --python ~/venv/bin/python",
               "both programs and the ratio of their steps, in one run");
  verb.example("ingot bench train --device cuda --dtype bf16 --shape llama-1b --batch 2 --sequence 4096",
               "a card");
  verb.run([o] { return run(*o); });
}

}  // namespace

void add_bench(Command& root) {
  Command bench = root.verb("bench", "Time training and inference against what the machine allows");
  add_bench_train(bench);
  add_bench_policy(bench);
  add_bench_inference(bench);
  add_bench_matmul(bench);
  add_bench_kernels(bench);
}

}  // namespace ingot::cli
