#include "ingot/serve/metrics.h"

#include <algorithm>
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

void write_value(std::string& to, const std::string& labels, const char* name, const char* type, double value,
                 const char* help) {
  write_head(to, name, type, help);
  to += fmt::format("{}{{{}}} {}\n", name, labels, value);
}

}  // namespace

void Histogram::add(double value) {
  const auto at = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  ++counts_[static_cast<std::size_t>(at)];
  sum_ += value;
}

void Histogram::write(std::string& to, const std::string& name, const std::string& labels,
                      const char* help) const {
  write_head(to, name, "histogram", help);
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    to += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, count);
  }
  to += fmt::format("{0}_sum{{{1}}} {2}\n{0}_count{{{1}}} {3}\n", name, labels, sum_, count);
}

Metrics::Metrics(std::string model)
    : labels_(fmt::format("model_name=\"{}\"", escaped(model))),
      first_token_(latencies()),
      gap_(gaps()),
      whole_(latencies()),
      queue_(latencies()),
      prompt_(sizes()),
      generation_(sizes()) {}

void Metrics::add(const FinishedChoice& choice) {
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
  using infer::StopReason;
  const bool stopped = choice.reason == StopReason::stop_token || choice.reason == StopReason::stop_string ||
                       choice.reason == StopReason::grammar_end;
  const bool ended = choice.reason == StopReason::cancelled || choice.reason == StopReason::failed;
  ++finished_[stopped ? "stop" : !ended ? "length" : choice.reason == StopReason::failed ? "error" : "abort"];
}

void Metrics::add_tokens(std::size_t count) {
  const std::lock_guard lock(mutex_);
  tokens_ += count;
}

void Metrics::add_gap(double seconds) {
  const std::lock_guard lock(mutex_);
  gap_.add(seconds);
}

void Metrics::add_http(int status) {
  const std::lock_guard lock(mutex_);
  ++statuses_[status];
}

std::string Metrics::text(const infer::EngineStats& engine, std::size_t connections) const {
  const std::lock_guard lock(mutex_);
  std::string to;
  const auto gauge = [&](const char* name, double value, const char* help) {
    write_value(to, labels_, name, "gauge", value, help);
  };
  const auto counter = [&](const char* name, auto value, const char* help) {
    write_value(to, labels_, name, "counter", static_cast<double>(value), help);
  };
  const infer::KvPoolStats& cache = engine.cache;
  const auto held = static_cast<double>(cache.running);
  gauge("vllm:num_requests_running", static_cast<double>(engine.running), "Requests in the current step.");
  gauge("vllm:num_requests_waiting", static_cast<double>(engine.waiting), "Requests that wait for room.");
  gauge("vllm:kv_cache_usage_perc", cache.budget > 0 ? held / static_cast<double>(cache.budget) : 0,
        "Share of the KV cache that running requests hold, 0 to 1.");
  counter("vllm:prefix_cache_queries_total", cache.queries, "Prompt tokens looked for in the prefix cache.");
  counter("vllm:prefix_cache_hits_total", cache.hits, "Prompt tokens found in the prefix cache.");
  counter("vllm:num_preemptions_total", engine.preemptions, "Requests that gave their cache up for a while.");
  counter("vllm:prompt_tokens_total", prompt_tokens_, "Prompt tokens of finished requests.");
  counter("vllm:generation_tokens_total", tokens_, "Tokens written.");
  counter("vllm:spec_decode_num_draft_tokens_total", drafted_, "Draft tokens.");
  counter("vllm:spec_decode_num_accepted_tokens_total", accepted_, "Draft tokens that were accepted.");
  write_head(to, "vllm:request_success_total", "counter", "Finished requests, by the reason of their end.");
  for (const auto& [reason, count] : finished_)
    to += fmt::format("vllm:request_success_total{{{},finished_reason=\"{}\"}} {}\n", labels_, reason, count);
  first_token_.write(to, "vllm:time_to_first_token_seconds", labels_, "From the request to its first token.");
  gap_.write(to, "vllm:inter_token_latency_seconds", labels_, "Between two pieces of text.");
  whole_.write(to, "vllm:e2e_request_latency_seconds", labels_, "From the request to its last token.");
  queue_.write(to, "vllm:request_queue_time_seconds", labels_, "Until the request was admitted.");
  prompt_.write(to, "vllm:request_prompt_tokens", labels_, "Tokens of a prompt.");
  generation_.write(to, "vllm:request_generation_tokens", labels_, "Tokens written for a request.");
  gauge("ingot:kv_cache_idle_tokens", static_cast<double>(cache.idle),
        "Tokens that idle caches have room for.");
  counter("ingot:prefix_cache_evictions_total", cache.evictions, "Idle caches that had to go.");
  gauge("ingot:http_connections", static_cast<double>(connections), "Open connections.");
  write_head(to, "http_requests_total", "counter", "Requests, by the status of their answer.");
  for (const auto& [status, count] : statuses_)
    to += fmt::format("http_requests_total{{status=\"{}\"}} {}\n", status, count);
  return to;
}

}  // namespace ingot::serve
