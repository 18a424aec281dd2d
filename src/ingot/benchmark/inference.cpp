#include "ingot/benchmark/inference.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/autograd/grad_mode.h"
#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/parallel.h"
#include "ingot/base/shell.h"
#include "ingot/base/units.h"
#include "ingot/benchmark/fresh_adapters.h"
#include "ingot/benchmark/launch_breakdown.h"
#include "ingot/benchmark/measure.h"
#include "ingot/benchmark/model_shapes.h"
#include "ingot/benchmark/read_bandwidth.h"
#include "ingot/core/backend.h"
#include "ingot/core/device_config.h"
#include "ingot/core/host_memory.h"
#include "ingot/infer/matrix_sizes.h"
#include "ingot/kernels/dot_rate.h"
#include "ingot/nn/param_source.h"
#include "ingot/train/machine_limit.h"

namespace ingot::benchmark {
namespace {

std::vector<std::int32_t> some_tokens(std::int64_t count, std::int64_t vocabulary, std::int64_t from) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>((from + i * 7919) % vocabulary));
  }
  return ids;
}

// tokens/s of llama-bench on the same work.
double peer_rate(const InferenceOptions& o, bool decode) {
  const std::string program = o.against.find('/') == std::string::npos ? "llama-bench" : o.against;
  const std::string model = o.against_model.empty() ? o.session.model : o.against_model;
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
  const auto json = parse_json_or_discard<nlohmann::json>(output);
  INGOT_CHECK(
      status == 0 && json.is_array() && !json.empty() && json[0].contains("avg_ts"),
      IoError(program, fmt::format("gave no result for {}; it is llama.cpp's llama-bench (by path or in "
                                   "PATH) and takes a .gguf (--against-model)",
                                   model)));
  return json[0]["avg_ts"].get<double>();
}

double time_run(const InferenceOptions& o, bool decode, infer::Engine& engine, bool adapted) {
  const std::int64_t vocabulary = engine.model().config.vocab_size;
  for (std::int64_t b = 0; b < o.batch; ++b) {
    const std::int64_t first = 17 * b + 5;
    // Greedy: to draw from what random weights give, all tokens about as likely, sorts the whole vocabulary.
    engine.start({.prompt = some_tokens(decode ? 1 : o.tokens, vocabulary, first),
                  .max_tokens = decode ? o.tokens : 1,
                  .sampling = {.temperature = 0},
                  .speculate = decode ? o.speculate : 0,
                  .adapter = adapted ? std::to_string(b % o.adapters) : ""});
  }
  const double start = seconds();
  engine.run();
  return seconds() - start;
}

// Keys and values that a step of decoding reads, halfway through the texts.
double cache_bytes(const InferenceOptions& o, const infer::Engine& engine) {
  const KvCache token(engine.model().config, 1, engine.kv_cache());
  return static_cast<double>(token.nbytes()) * static_cast<double>(o.batch * (1 + o.tokens)) / 2;
}

// Runs of the model, in turn with what limits them: a host gives more at one moment than at another.
class Measurement {
 public:
  Measurement(const InferenceOptions& o, bool decode, LanguageModel& model)
      : options_(o),
        decode_(decode),
        engine_(model, o.session.engine),
        weights_(infer::active_matrix_sizes(model)),
        step_bytes_(weights_.bytes + cache_bytes(o, engine_)) {
    if (decode) memory_.emplace(step_bytes_, model.device());
    const bool adapted = o.adapters > 0;
    time_run(o, decode, engine_, adapted);  // touches the weights for the first time
    sample_limit();
    for (std::int64_t i = 0; i < o.runs; ++i) {
      times_.push_back(time_run(o, decode, engine_, adapted));
      if (adapted) {
        const double without = time_run(o, decode, engine_, false);
        shares_.push_back(without / times_.back());
      }
      sample_limit();
    }
  }

  const infer::MatrixSizes& weights() const { return weights_; }
  double rate() const { return static_cast<double>(options_.tokens * options_.batch) / median(times_); }
  /// Of the rate without adapters, in turn with it.
  double share_of_unadapted() const { return median(shares_); }
  double step_bytes() const { return step_bytes_; }
  double bandwidth() const { return memory_->bytes_per_second(); }
  double matmul_rate() const { return median(matmul_rates_); }
  double dot_rate() const { return median(dot_rates_); }
  double scaled_dot_rate() const { return median(scaled_dot_rates_); }
  bool has_dot_rates() const { return weights_.int8 > 0 && !dot_rates_.empty() && scaled_dot_rate() > 0; }

  // Decoding streams the weights once per step, and what the texts have in their caches. Of a prompt every
  // token passes the layers' matmuls and the last one the head's; the rate of each kind is what registers
  // allow.
  double limit() const {
    if (decode_) return static_cast<double>(options_.batch) * bandwidth() / step_bytes_;
    const auto tokens = static_cast<double>(options_.tokens);
    const double dots = has_dot_rates() ? weights_.int8 * tokens : 0;
    const double products = (weights_.elements - weights_.head) * tokens - dots + weights_.head;
    double seconds = 2 * products / matmul_rate();
    if (has_dot_rates()) {
      const double alone = without_scales() * tokens;
      seconds += 2 * (alone / dot_rate() + (dots - alone) / scaled_dot_rate());
    }
    return tokens / seconds;
  }
  // Of the elements that are multiplied by dot products of integers, those with no scales in between.
  double without_scales() const { return weights_.int8_rows; }

  /// What the matmuls of a prompt are made in: a GPU unpacks weights for that.
  DType matmul_dtype() const {
    const LanguageModel& model = engine_.model();
    if (has_host_memory(model.device())) return DType::f32;
    const LinearWeight& weights = model.layers.front()->mixer_output();
    return weights.is_quantized() ? DType::bf16 : weights.dtype();
  }

  /// One more run, by kernels: of each decoded token, or of the prompt.
  LaunchBreakdown breakdown() {
    const double steps = decode_ ? static_cast<double>(options_.tokens) : 1;
    const auto of = [&](infer::Engine& engine) {
      return break_down([&] { return time_run(options_, decode_, engine, options_.adapters > 0); }, steps);
    };
    if (has_host_memory(engine_.model().device()) || !options_.session.engine.capture) return of(engine_);
    // A captured step is one launch, whose kernels nobody can tell apart.
    infer::EngineOptions one_by_one = options_.session.engine;
    one_by_one.capture = false;
    infer::Engine engine(engine_.model(), one_by_one);
    time_run(options_, decode_, engine, options_.adapters > 0);  // memory is allocated
    return of(engine);
  }

 private:
  void sample_limit() {
    if (memory_) return memory_->sample();
    matmul_rates_.push_back(measure_matmul_flops(matmul_dtype(), engine_.model().device()));
    if (!has_host_memory(engine_.model().device())) return;
    const kernels::DotRates rates = kernels::measure_dot_rates();
    dot_rates_.push_back(rates.alone);
    scaled_dot_rates_.push_back(rates.with_scales);
  }

  const InferenceOptions& options_;
  bool decode_;
  infer::Engine engine_;
  infer::MatrixSizes weights_;
  double step_bytes_;  // read to decode a token of each text
  std::optional<ReadBandwidth> memory_;
  std::vector<double> times_, shares_, matmul_rates_, dot_rates_, scaled_dot_rates_;
};

std::string limit_text(const Measurement& m, bool decode) {
  if (decode)
    return fmt::format("reads of {:.0f} MB, weights and caches, at {:.1f} GB/s just then,",
                       m.step_bytes() * 1e-6, m.bandwidth() * 1e-9);
  if (!m.has_dot_rates())
    return fmt::format("{} matmuls, at {:.0f} GFLOP/s,", name(m.matmul_dtype()), m.matmul_rate() * 1e-9);
  if (m.without_scales() == m.weights().int8)
    return fmt::format("int8 dot products in registers, at {:.0f} G/s,", m.dot_rate() * 1e-9);
  return fmt::format("int8 dot products with scales in registers, at {:.0f} G/s ({:.0f} G/s without scales),",
                     m.scaled_dot_rate() * 1e-9, m.dot_rate() * 1e-9);
}

// With random weights, where a shape is given: speed does not depend on them.
std::unique_ptr<LanguageModel> model_to_time(const InferenceOptions& o) {
  if (o.shape.empty()) return infer::load_model(o.session);
  const Device device = choose_device(o.session.device);
  const DType dtype = parse_dtype(o.session.format);
  const NoGrad no_grad;
  InitSource source(/*seed=*/1, dtype, device);
  return std::make_unique<LanguageModel>(shape_config(o.shape, dtype), source);
}

Report time_inference(InferenceOptions o, bool decode) {
  if (!o.shape.empty() && o.session.format.empty())
    o.session.format = has_host_memory(choose_device(o.session.device)) ? "f32" : "bf16";
  const double start = seconds();
  const auto model = model_to_time(o);
  const double load = seconds() - start;
  if (o.adapters > 0) o.session.engine.adapters = fresh_adapters(*model, o.adapters, o.adapter_rank);
  const std::string format = o.session.format.empty() ? "as stored" : o.session.format;
  Measurement measurement(o, decode, *model);
  const double rate = measurement.rate(), limit = measurement.limit(), bytes = measurement.weights().bytes;
  nlohmann::ordered_json json{{"work", decode ? "decode" : "prefill"},
                              {"model", o.shape.empty() ? o.session.model : o.shape},
                              {"format", format},
                              {"device", to_string(model->device())},
                              {"threads", num_threads()},
                              {"tensor_parallel_size", o.session.tensor_parallel_size},
                              {"tokens", o.tokens},
                              {"batch", o.batch},
                              {"weight_mb", bytes * 1e-6},
                              {"load_seconds", load},
                              {"tokens_per_second", rate},
                              {"limit_tokens_per_second", limit},
                              {"share_of_limit", rate / limit}};
  if (decode) {
    json["read_mb"] = measurement.step_bytes() * 1e-6;
    json["read_bandwidth"] = measurement.bandwidth();
  } else {
    json[fmt::format("{}_flops", name(measurement.matmul_dtype()))] = measurement.matmul_rate();
    if (measurement.has_dot_rates()) {
      json["int8_dot_flops"] = measurement.dot_rate();
      json["int8_dot_flops_with_scales"] = measurement.scaled_dot_rate();
    }
  }
  if (o.adapters > 0) {
    json["adapters"] = o.adapters;
    json["adapter_rank"] = o.adapter_rank;
    json["share_of_unadapted"] = measurement.share_of_unadapted();
  }
  LaunchBreakdown breakdown;
  if (o.breakdown) {
    breakdown = measurement.breakdown();
    json["breakdown"] = parse_json<nlohmann::ordered_json>(to_json(breakdown), "the breakdown");
  }
  if (!o.against.empty()) {
    const double peer = peer_rate(o, decode);
    json["peer_tokens_per_second"] = peer;
    json["ratio"] = rate / peer;
  }
  Report report{.json = dump_json(json, 2)};
  const std::string where = has_host_memory(model->device())
                                ? fmt::format("{} threads", num_threads())
                                : backend(model->device()).capabilities().device_name;
  report.text +=
      fmt::format("{} of {} tokens, batch {}, weights {} ({:.0f} MB of matrices), {}, median of {}\n",
                  decode ? "decoding" : "prompt", o.tokens, o.batch, format, bytes * 1e-6, where, o.runs);
  report.text += fmt::format("  {:>9.1f} tokens/s\n", rate);
  const std::string what = limit_text(measurement, decode);
  report.text +=
      fmt::format("  {:>9.1f} tokens/s is what {} allow: {:.0f} %\n", limit, what, 100 * rate / limit);
  if (o.adapters > 0)
    report.text += fmt::format("  {:>9.0f} % of the rate without adapters, with {} of rank {}\n",
                               100 * measurement.share_of_unadapted(), o.adapters, o.adapter_rank);
  if (json.contains("ratio")) {
    report.text += fmt::format("  {:>9.1f} tokens/s is llama.cpp's, in the same run: {:.2f} times as fast\n",
                               json["peer_tokens_per_second"].get<double>(), json["ratio"].get<double>());
  }
  if (o.breakdown) report.text += describe(breakdown, decode ? "for each step" : "for the prompt");
  return report;
}

}  // namespace

Report time_decode(const InferenceOptions& options) { return time_inference(options, true); }
Report time_prefill(const InferenceOptions& options) { return time_inference(options, false); }

}  // namespace ingot::benchmark
