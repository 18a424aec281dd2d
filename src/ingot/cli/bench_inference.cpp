#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ingot/base/error.h"
#include "ingot/benchmark/inference.h"
#include "ingot/benchmark/model_shapes.h"
#include "ingot/cli/bench.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/ranks.h"

namespace ingot::cli {
namespace {

void check(const benchmark::InferenceOptions& o, const InferenceOptions& inference) {
  INGOT_CHECK(inference.model.empty() != o.shape.empty(),
              InvalidConfig("model", "give either a model or --shape"));
  INGOT_CHECK(o.shape.empty() || o.against.empty() || !o.against_model.empty(),
              InvalidConfig("--against-model", "is missing: the shape is not a model that llama.cpp opens"));
  constexpr std::array<std::string_view, 4> kDense{"f32", "bf16", "f16", "as stored"};
  INGOT_CHECK(o.shape.empty() || std::ranges::find(kDense, inference.format) != kDense.end(),
              InvalidConfig("--format",
                            fmt::format("is one of f32, bf16, f16 with --shape, got {}", inference.format)));
  check_positive(
      {{"--tokens", o.tokens}, {"--batch", o.batch}, {"--runs", o.runs}, {"--adapter-rank", o.adapter_rank}});
  INGOT_CHECK(inference.tensor_parallel_size == 1 || (o.shape.empty() && o.adapters == 0),
              InvalidConfig("--tensor-parallel-size", "takes a model, without --shape and --adapters"));
  INGOT_CHECK(o.adapters >= 0 && o.adapters <= o.batch,
              InvalidConfig("--adapters",
                            fmt::format("must be 0 to the {} sequences of --batch, which take one each, "
                                        "got {}",
                                        o.batch, o.adapters)));
}

void add(Command& bench, const std::string& name, const std::string& summary, bool decode) {
  auto o = std::make_shared<benchmark::InferenceOptions>();
  auto inference = std::make_shared<InferenceOptions>();
  auto json = std::make_shared<bool>(false);
  o->tokens = decode ? 128 : 512;
  Command command = bench.subcommand(name, summary);
  command.option("model", inference->model, "Model directory, or a .gguf file; none with --shape");
  command.option("--shape", o->shape, "Random weights of a known shape, in place of a model")
      .one_of(benchmark::shape_names());
  add_run_options(command, *inference);
  add_tensor_parallel_option(command, *inference);
  command.option("-n,--tokens", o->tokens, decode ? "Tokens to write" : "Tokens of the prompt");
  command.option("--batch", o->batch, "Sequences at once");
  command.option("--adapters", o->adapters,
                 "Fresh LoRA adapters on all linear layers, which the sequences take in turn");
  command.option("--adapter-rank", o->adapter_rank, "Their rank");
  command.option("--runs", o->runs, "Runs to take the median of");
  command.option("--against", o->against,
                 "Run llama.cpp too: 'llama.cpp' for llama-bench in PATH, or its path");
  command.option("--against-model", o->against_model, "The .gguf it runs, where the model is none itself");
  command.flag("--breakdown", o->breakdown,
               "One more run that shows where its time goes, kernel by kernel (on a GPU: eagerly)");
  command.flag("--json", *json, "Print JSON");
  command.example(fmt::format("ingot bench {} model-q8_0.gguf --threads 2 --against llama.cpp", name),
                  "both programs, and what the machine allows, in one run");
  command.example(fmt::format("ingot bench {} --shape llama-1b --device cuda", name),
                  "a GPU, without a model");
  command.run([o, inference, json, decode] {
    check(*o, *inference);
    return run_with_model(
        *inference, *json, [&] { return session_options(*inference); },
        [&](const infer::SessionOptions& session) {
          benchmark::InferenceOptions options = *o;
          options.session = session;
          options.speculate = inference->speculate;
          return show(decode ? benchmark::time_decode(options) : benchmark::time_prefill(options), *json);
        });
  });
}

}  // namespace

void add_bench_inference(Command& bench) {
  add(bench, "decode", "Time writing, token by token, against what memory bandwidth allows", true);
  add(bench, "prefill", "Time reading a prompt, against what matmuls allow", false);
}

}  // namespace ingot::cli
