#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"
#include "ingot/base/shell.h"
#include "ingot/base/units.h"
#include "ingot/cli/bench.h"
#include "ingot/cli/inference.h"
#include "ingot/cli/torch_peer.h"
#include "ingot/hub/resolve.h"
#include "ingot/infer/matrix_sizes.h"
#include "ingot/train/machine_limit.h"

namespace ingot::cli {
namespace {

struct Options {
  InferenceOptions inference;
  std::int64_t tokens = 0, batch = 1, runs = 3;
  std::string against, against_model;
  bool json = false;
};

std::vector<std::int32_t> some_tokens(std::int64_t count, std::int64_t vocabulary, std::int64_t from) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>((from + i * 7919) % vocabulary));
  }
  return ids;
}

// tokens/s of llama-bench on the same work.
double peer_rate(const Options& o, bool decode) {
  const std::string program = o.against.find('/') == std::string::npos ? "llama-bench" : o.against;
  const std::string model = o.against_model.empty() ? o.inference.model : o.against_model;
  const std::string command =
      fmt::format("{} -m {} -t {} -p {} -n {} -r {} -o json 2>/dev/null", shell_quoted(program),
                  shell_quoted(model), num_threads(), decode ? 0 : o.tokens, decode ? o.tokens : 0, o.runs);
  std::FILE* pipe = ::popen(command.c_str(), "r");
  INGOT_CHECK(pipe != nullptr, IoError(program, "cannot be started"));
  std::string output;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    output.append(buffer, got);
  const int status = ::pclose(pipe);
  const auto json = nlohmann::json::parse(output, nullptr, false);
  INGOT_CHECK(
      status == 0 && json.is_array() && !json.empty() && json[0].contains("avg_ts"),
      IoError(program, fmt::format("gave no result for {}; it is llama.cpp's llama-bench (by path or in "
                                   "PATH) and takes a .gguf (--against-model)",
                                   model)));
  return json[0]["avg_ts"].get<double>();
}

// Seconds of each run; the first, which touches the weights for the first time, does not count.
template <class Run>
std::vector<double> time_runs(std::int64_t runs, Run&& run) {
  run();
  std::vector<double> times;
  for (std::int64_t i = 0; i < runs; ++i) times.push_back(run());
  return times;
}

std::vector<double> time_decode(const Options& o, const LanguageModel& model) {
  infer::Engine engine(model, engine_options(o.inference));
  return time_runs(o.runs, [&] {
    for (std::int64_t b = 0; b < o.batch; ++b) {
      engine.start({.prompt = some_tokens(1, model.config.vocab_size, 17 * b + 5),
                    .max_tokens = o.tokens,
                    .sampling = {.temperature = 0},
                    .speculate = o.inference.speculate});
    }
    const double start = seconds();
    engine.run();
    return seconds() - start;
  });
}

std::vector<double> time_prefill(const Options& o, const LanguageModel& model) {
  infer::Engine engine(model, engine_options(o.inference));
  return time_runs(o.runs, [&] {
    for (std::int64_t b = 0; b < o.batch; ++b) {
      engine.start({.prompt = some_tokens(o.tokens, model.config.vocab_size, 17 * b + 5), .max_tokens = 1});
    }
    const double start = seconds();
    engine.run();
    return seconds() - start;
  });
}

void check(const Options& o) {
  for (const auto& [option, value] :
       {std::pair{"--tokens", o.tokens}, {"--batch", o.batch}, {"--runs", o.runs}}) {
    INGOT_CHECK(value > 0, InvalidConfig(option, fmt::format("must be at least 1, got {}", value)));
  }
}

int run(Options o, bool decode) {
  check(o);
  o.inference.model = hub::resolve_model(o.inference.model);
  const double start = seconds();
  const auto model = open_model(o.inference);
  const double load = seconds() - start;
  const infer::MatrixSizes weights = infer::active_matrix_sizes(*model);
  const std::vector<double> times = decode ? time_decode(o, *model) : time_prefill(o, *model);
  const double rate = static_cast<double>(o.tokens * o.batch) / median(times);
  // Decoding streams the weights once per step; a prompt's products have so many operations per token.
  const double limit = decode ? static_cast<double>(o.batch) * read_bandwidth(weights.bytes) / weights.bytes
                              : measure_matmul_flops() / (2 * weights.elements);
  nlohmann::ordered_json json{{"work", decode ? "decode" : "prefill"},
                              {"model", o.inference.model},
                              {"format", o.inference.format},
                              {"threads", num_threads()},
                              {"tokens", o.tokens},
                              {"batch", o.batch},
                              {"weight_mb", weights.bytes * 1e-6},
                              {"load_seconds", load},
                              {"tokens_per_second", rate},
                              {"limit_tokens_per_second", limit},
                              {"share_of_limit", rate / limit}};
  if (!o.against.empty()) {
    const double peer = peer_rate(o, decode);
    json["peer_tokens_per_second"] = peer;
    json["ratio"] = rate / peer;
  }
  if (o.json) {
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("{} of {} tokens, batch {}, weights {} ({:.0f} MB of matrices), {} threads, median of {}\n",
             decode ? "decoding" : "prompt", o.tokens, o.batch, o.inference.format, weights.bytes * 1e-6,
             num_threads(), o.runs);
  fmt::print("  {:>9.1f} tokens/s\n", rate);
  fmt::print("  {:>9.1f} tokens/s is what {} allow: {:.0f} %\n", limit,
             decode ? "reads of that much memory" : "f32 matrix products", 100 * rate / limit);
  if (json.contains("ratio")) {
    fmt::print("  {:>9.1f} tokens/s is llama.cpp's, in the same run: {:.2f} times as fast\n",
               json["peer_tokens_per_second"].get<double>(), json["ratio"].get<double>());
  }
  return 0;
}

void add(Command& bench, const std::string& name, const std::string& summary, bool decode) {
  auto o = std::make_shared<Options>();
  o->tokens = decode ? 128 : 512;
  Command verb = bench.verb(name, summary);
  add_inference_options(verb, o->inference);
  verb.option("-n,--tokens", o->tokens, decode ? "Tokens to write" : "Tokens of the prompt");
  verb.option("--batch", o->batch, "Texts at once");
  verb.option("--runs", o->runs, "Runs to take the median of");
  verb.option("--against", o->against, "Run llama.cpp too: 'llama.cpp' for llama-bench in PATH, or its path");
  verb.option("--against-model", o->against_model, "The .gguf it runs, where the model is none itself");
  verb.flag("--json", o->json, "Print JSON");
  verb.example(fmt::format("ingot bench {} model-q8_0.gguf --threads 2 --against llama.cpp", name),
               "both programs, and what the machine allows, in one run");
  verb.run([o, decode] { return run(*o, decode); });
}

}  // namespace

void add_bench_inference(Command& bench) {
  add(bench, "decode", "Time writing, token by token, against what memory bandwidth allows", true);
  add(bench, "prefill", "Time reading a prompt, against what matrix products allow", false);
}

}  // namespace ingot::cli
