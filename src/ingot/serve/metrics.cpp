#include "ingot/serve/metrics.h"

#include <algorithm>
#include <ctime>
#include <string_view>

#include <fmt/format.h>

namespace ingot::serve {
namespace {

std::vector<double> latencies() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,   0.75,
          1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80,  160,  640.0, 2560.0};
}
std::vector<double> gaps() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10};
}
std::vector<double> sizes() {
  return {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
}

constexpr std::size_t kMostAdapters = 1000;  // that are counted by name

// A label's value: a name may hold anything.
std::string escaped(std::string_view value) {
  std::string result;
  for (const char c : value) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? ' ' : c;
  }
  return result;
}

void write_head(std::string& to, std::string_view name, std::string_view type, std::string_view help) {
  to += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

}  // namespace

void Histogram::add(double value) {
  const auto at = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(at)];
  sum_ += value;
}

void Histogram::write(std::string& to, const std::string& name, const std::string& labels) const {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    to += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, count);
  }
  to += fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels, sum_, count);
}

ModelMetrics::ModelMetrics(const std::string& model)
    : labels_(fmt::format("model_name=\"{}\"", escaped(model))),
      first_token_(latencies()),
      gap_(gaps()),
      whole_(latencies()),
      queue_(latencies()),
      prompt_(sizes()),
      generation_(sizes()) {}

void ModelMetrics::add(const FinishedChoice& choice) {
  const std::lock_guard lock(mutex_);
  if (choice.has_token) first_token_.add(choice.first_token);
  whole_.add(choice.whole);
  queue_.add(choice.queue);
  prompt_.add(static_cast<double>(choice.prompt_tokens));
  generation_.add(static_cast<double>(choice.tokens));
  prompt_tokens_ += static_cast<std::uint64_t>(choice.prompt_tokens);
  tokens_ += static_cast<std::uint64_t>(std::max<std::int64_t>(0, choice.tokens - choice.counted_tokens));
  cached_ += static_cast<std::uint64_t>(choice.cached_tokens);
  drafted_ += static_cast<std::uint64_t>(choice.drafted);
  accepted_ += static_cast<std::uint64_t>(choice.accepted);
  if (!choice.adapter.empty()) {
    // Names are bounded, whatever is loaded and unloaded in a server's life.
    const bool known = adapters_.contains(choice.adapter) || adapters_.size() < kMostAdapters;
    OfAdapter& adapter = adapters_[known ? choice.adapter : "others"];
    ++adapter.requests;
    adapter.prompt_tokens += static_cast<std::uint64_t>(choice.prompt_tokens);
    adapter.tokens += static_cast<std::uint64_t>(choice.tokens);
  }
  using infer::StopReason;
  const bool stopped = choice.reason == StopReason::stop_token || choice.reason == StopReason::stop_string ||
                       choice.reason == StopReason::grammar_end;
  const bool ended = choice.reason == StopReason::cancelled || choice.reason == StopReason::failed ||
                     choice.reason == StopReason::timeout;
  ++finished_[stopped ? "stop" : !ended ? "length" : choice.reason == StopReason::failed ? "error" : "abort"];
}

void ModelMetrics::add_tokens(std::size_t count) {
  const std::lock_guard lock(mutex_);
  tokens_ += count;
}

void ModelMetrics::add_gap(double seconds) {
  const std::lock_guard lock(mutex_);
  gap_.add(seconds);
}

namespace {

// "a,b": adapters that have such requests, as vLLM lists them.
std::string adapters_with(const infer::EngineStats& engine, std::int64_t infer::AdapterStats::*requests) {
  std::string names;
  for (const infer::AdapterStats& adapter : engine.adapters)
    if (adapter.*requests > 0) names += (names.empty() ? "" : ",") + escaped(adapter.name);
  return names;
}

// vLLM's value is the time, by which routers find the newest of several.
void write_lora_info(std::string& to, const std::string& labels, const infer::EngineStats& engine) {
  const auto most = engine.most_adapters > 0 ? engine.most_adapters : std::ssize(engine.adapters);
  to += fmt::format(
      "vllm:lora_requests_info{{{},max_lora=\"{}\",running_lora_adapters=\"{}\",waiting_lora_adapters=\"{}\"}"
      "} "
      "{}\n",
      labels, most, adapters_with(engine, &infer::AdapterStats::running),
      adapters_with(engine, &infer::AdapterStats::waiting), std::time(nullptr));
}

}  // namespace

Metrics::Metrics(const std::vector<std::string>& models) {
  for (const std::string& model : models) models_.try_emplace(model, model);
  // There from the start: a request is counted once its answer is sent, and rates need a first value.
  statuses_[200] = 0;
}

void Metrics::add_http(int status) {
  const std::lock_guard lock(mutex_);
  ++statuses_[status];
}

// Of models that have adapters.
void Metrics::write_adapters(std::string& to,
                             const std::vector<std::pair<std::string, infer::EngineStats>>& engines) const {
  write_head(to, "vllm:lora_requests_info", "gauge", "Adapters whose requests run and wait.");
  for (const auto& [model, engine] : engines)
    if (!engine.adapters.empty() || engine.most_adapters > 0)
      write_lora_info(to, models_.at(model).labels_, engine);
  const auto of_loaded = [&](const char* name, const char* help, auto value) {
    write_head(to, name, "gauge", help);
    for (const auto& [model, engine] : engines)
      for (const infer::AdapterStats& adapter : engine.adapters)
        to += fmt::format("{}{{{},adapter=\"{}\"}} {}\n", name, models_.at(model).labels_,
                          escaped(adapter.name), value(adapter));
  };
  using Adapter = infer::AdapterStats;
  of_loaded("ingot:adapter_memory_bytes", "Memory of an adapter's matrices.",
            [](const Adapter& a) { return a.bytes; });
  of_loaded("ingot:adapter_requests_running", "Requests of an adapter in the current step.",
            [](const Adapter& a) { return a.running; });
  of_loaded("ingot:adapter_requests_waiting", "Requests of an adapter that wait for room.",
            [](const Adapter& a) { return a.waiting; });
  const auto counter = [&](const char* name, const char* help,
                           std::uint64_t ModelMetrics::OfAdapter::*value) {
    write_head(to, name, "counter", help);
    for (const auto& [model, metrics] : models_) {
      const std::lock_guard lock(metrics.mutex_);
      for (const auto& [adapter, counts] : metrics.adapters_)
        to += fmt::format("{}{{{},adapter=\"{}\"}} {}\n", name, metrics.labels_, escaped(adapter),
                          counts.*value);
    }
  };
  using Counts = ModelMetrics::OfAdapter;
  counter("ingot:adapter_requests_total", "Finished requests of an adapter.", &Counts::requests);
  counter("ingot:adapter_prompt_tokens_total", "Prompt tokens of an adapter's finished requests.",
          &Counts::prompt_tokens);
  counter("ingot:adapter_generation_tokens_total", "Tokens written for an adapter's finished requests.",
          &Counts::tokens);
}

std::string Metrics::text(const std::vector<std::pair<std::string, infer::EngineStats>>& engines,
                          std::size_t connections) const {
  std::string to;
  const auto number = [](auto value) { return static_cast<double>(value); };
  const auto of_engines = [&](const char* name, const char* type, const char* help, auto value) {
    write_head(to, name, type, help);
    for (const auto& [model, engine] : engines)
      to += fmt::format("{}{{{}}} {}\n", name, models_.at(model).labels_, number(value(engine)));
  };
  const auto of_models = [&](const char* name, const char* type, const char* help, auto write) {
    write_head(to, name, type, help);
    for (const auto& [model, metrics] : models_) {
      const std::lock_guard lock(metrics.mutex_);
      write(metrics);
    }
  };
  const auto counter = [&](const char* name, const char* help, std::uint64_t ModelMetrics::*value) {
    of_models(name, "counter", help, [&](const ModelMetrics& m) {
      to += fmt::format("{}{{{}}} {}\n", name, m.labels_, number(m.*value));
    });
  };
  const auto histogram = [&](const char* name, const char* help, Histogram ModelMetrics::*value) {
    of_models(name, "histogram", help, [&](const ModelMetrics& m) { (m.*value).write(to, name, m.labels_); });
  };
  using Engine = infer::EngineStats;
  using M = ModelMetrics;
  of_engines("vllm:num_requests_running", "gauge", "Requests in the current step.",
             [](const Engine& e) { return e.running; });
  of_engines("vllm:num_requests_waiting", "gauge", "Requests that wait for room.",
             [](const Engine& e) { return e.waiting; });
  of_engines("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache that running requests hold, 0 to 1.",
             [&](const Engine& e) {
               return e.cache.budget > 0 ? number(e.cache.running) / number(e.cache.budget) : 0.0;
             });
  of_engines("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked for in the prefix cache.",
             [](const Engine& e) { return e.cache.queries; });
  of_engines("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.",
             [](const Engine& e) { return e.cache.hits; });
  of_engines("ingot:prompt_cache_hits_total", "counter",
             "Prompt tokens whose keys and values were read from the disk (--prompt-cache).",
             [](const Engine& e) { return e.cache.disk_hits; });
  of_engines("vllm:num_preemptions_total", "counter", "Requests that gave their cache up for a while.",
             [](const Engine& e) { return e.preemptions; });
  counter("vllm:prompt_tokens_total", "Prompt tokens of finished requests.", &M::prompt_tokens_);
  counter("vllm:generation_tokens_total", "Tokens written.", &M::tokens_);
  counter("vllm:spec_decode_num_draft_tokens_total", "Draft tokens.", &M::drafted_);
  counter("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens that were accepted.", &M::accepted_);
  of_models("vllm:request_success_total", "counter", "Finished requests, by the reason of their end.",
            [&](const M& m) {
              for (const auto& [reason, count] : m.finished_)
                to += fmt::format("vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n", m.labels_,
                                  reason, count);
            });
  histogram("vllm:time_to_first_token_seconds", "From the request to its first token.", &M::first_token_);
  histogram("vllm:inter_token_latency_seconds", "Between two pieces of text.", &M::gap_);
  histogram("vllm:e2e_request_latency_seconds", "From the request to its last token.", &M::whole_);
  histogram("vllm:request_queue_time_seconds", "Until the request was admitted.", &M::queue_);
  histogram("vllm:request_prompt_tokens", "Tokens of a prompt.", &M::prompt_);
  histogram("vllm:request_generation_tokens", "Tokens written for a request.", &M::generation_);
  of_engines("ingot:kv_cache_idle_tokens", "gauge", "Tokens that idle caches have room for.",
             [](const Engine& e) { return e.cache.idle; });
  of_engines("ingot:kv_cache_waste_perc", "gauge",
             "Share of the KV cache of running requests that holds no token yet, 0 to 1.",
             [&](const Engine& e) {
               return e.cache.running > 0 ? 1 - number(e.cache.held) / number(e.cache.running) : 0.0;
             });
  of_engines("ingot:kv_cache_shared_tokens", "gauge",
             "Tokens of blocks that several caches hold together; each counts once.",
             [](const Engine& e) { return e.cache.shared; });
  of_engines("ingot:prefix_cache_evictions_total", "counter", "Idle caches that had to go.",
             [](const Engine& e) { return e.cache.evictions; });
  write_adapters(to, engines);
  write_head(to, "ingot:http_connections", "gauge", "Open connections.");
  to += fmt::format("ingot:http_connections {}\n", connections);
  write_head(to, "http_requests_total", "counter", "Requests, by the status of their answer.");
  const std::lock_guard lock(mutex_);
  for (const auto& [status, count] : statuses_)
    to += fmt::format("http_requests_total{{status=\"{}\"}} {}\n", status, count);
  return to;
}

}  // namespace ingot::serve
