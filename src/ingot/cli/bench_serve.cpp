#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/printable.h"
#include "ingot/cli/bench.h"
#include "ingot/serve/load_test.h"

namespace ingot::cli {
namespace {

struct ServeBenchOptions {
  serve::LoadTestOptions load;
  std::string key;
  double first_token_ms = 0, per_token_ms = 0, whole_ms = 0;
  bool completions = false, json = false;
};

nlohmann::ordered_json percentiles(const std::vector<double>& seconds) {
  nlohmann::ordered_json json;
  for (const auto& [name, share] : {std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p99", 0.99}})
    json[name] = serve::percentile(seconds, share) * 1e3;
  return json;
}

nlohmann::ordered_json summary(const serve::LoadTestResult& result, const serve::ServiceLevel& level) {
  std::vector<double> first, gaps, whole;
  std::int64_t tokens = 0, prompt_tokens = 0, failed = 0;
  std::string error;
  for (const serve::RequestTiming& request : result.requests) {
    if (!request.error.empty()) {
      ++failed;
      error = request.error;
      continue;
    }
    if (request.first_token > 0) first.push_back(request.first_token);
    whole.push_back(request.whole);
    gaps.insert(gaps.end(), request.gaps.begin(), request.gaps.end());
    tokens += request.tokens;
    prompt_tokens += request.prompt_tokens;
  }
  nlohmann::ordered_json json = {{"requests", result.requests.size()},
                                 {"failed", failed},
                                 {"seconds", result.seconds},
                                 {"requests_per_second", static_cast<double>(whole.size()) / result.seconds},
                                 {"prompt_tokens", prompt_tokens},
                                 {"output_tokens", tokens},
                                 {"output_tokens_per_second", static_cast<double>(tokens) / result.seconds},
                                 {"ttft_ms", percentiles(first)},
                                 {"itl_ms", percentiles(gaps)},
                                 {"e2e_ms", percentiles(whole)}};
  if (level.is_set()) {
    const auto met = std::ranges::count_if(result.requests, [&](const auto& r) { return level.met_by(r); });
    json["met"] = met;
    json["goodput_requests_per_second"] = static_cast<double>(met) / result.seconds;
  }
  if (failed > 0) json["error"] = error;
  return json;
}

void print_row(const char* what, const nlohmann::ordered_json& ms) {
  fmt::print("  {:<28} {:>9.1f} {:>9.1f} {:>9.1f}\n", what, ms["p50"].get<double>(), ms["p90"].get<double>(),
             ms["p99"].get<double>());
}

double seconds_of(const char* option, double milliseconds) {
  INGOT_CHECK(
      std::isfinite(milliseconds) && milliseconds >= 0,
      InvalidConfig(option, fmt::format("must be milliseconds above 0, or 0 for any, got {}", milliseconds)));
  return milliseconds / 1e3;
}

int run(ServeBenchOptions o) {
  o.load.chat = !o.completions;
  if (!o.key.empty()) o.load.headers.emplace_back("Authorization", "Bearer " + o.key);
  const serve::ServiceLevel level{.first_token = seconds_of("--slo-ttft", o.first_token_ms),
                                  .per_token = seconds_of("--slo-tpot", o.per_token_ms),
                                  .whole = seconds_of("--slo-e2e", o.whole_ms)};
  const nlohmann::ordered_json json = summary(serve::run_load_test(o.load), level);
  const auto failed = json["failed"].get<std::int64_t>();
  if (o.json) {
    fmt::print("{}\n", printable_json(dump_json(json, 2)));
  } else {
    const std::string load = o.load.rate > 0 ? fmt::format("{} requests a second", o.load.rate)
                                             : fmt::format("{} clients", o.load.clients);
    fmt::print("{} requests, {}, prompts of {} words, {} tokens written for each{}\n", o.load.requests, load,
               o.load.prompt_words, o.load.max_tokens, o.load.mixed_lengths ? ", on average" : "");
    fmt::print("  {:>9.1f} output tokens/s, {:.2f} requests/s\n",
               json["output_tokens_per_second"].get<double>(), json["requests_per_second"].get<double>());
    fmt::print("  {:<28} {:>9} {:>9} {:>9}\n", "ms", "median", "90 %", "99 %");
    print_row("time to first token", json["ttft_ms"]);
    print_row("inter-token latency", json["itl_ms"]);
    print_row("whole request", json["e2e_ms"]);
    if (json.contains("met"))
      fmt::print("  {} in time: {:.2f} requests/s of goodput\n", json["met"].get<std::int64_t>(),
                 json["goodput_requests_per_second"].get<double>());
    if (failed > 0)
      fmt::print("  {} failed, the last with: {}\n", failed, printable(json["error"].get<std::string>()));
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace

void add_bench_serve(Command& bench) {
  auto o = std::make_shared<ServeBenchOptions>();
  Command command = bench.subcommand("serve", "Load a server that has OpenAI's API, and time its answers");
  command.option("--url", o->load.url, "The server, up to /v1");
  command.option("--model", o->load.model, "Name of the model to ask for; none: whatever is served");
  command.option("--api-key", o->key, "Key to send");
  command.option("--clients", o->load.clients, "Clients that each ask again as soon as they have an answer");
  command.option("--rate", o->load.rate, "Requests a second that arrive at random instead");
  command.option("--requests", o->load.requests, "Requests in all");
  command.option("--prompt-words", o->load.prompt_words, "Words of a prompt");
  command.option("--shared-words", o->load.shared_words, "Of these, words that all prompts begin with");
  command.option("-n,--max-tokens", o->load.max_tokens, "Tokens to write for each");
  command.flag("--mixed-lengths", o->load.mixed_lengths,
               "Prompts and answers of lengths as in conversations, with these means");
  command.option("--slo-ttft", o->first_token_ms,
                 "Milliseconds to the first token at most, of requests that count as goodput; 0: any");
  command.option("--slo-tpot", o->per_token_ms, "Milliseconds for each further token, on average; 0: any");
  command.option("--slo-e2e", o->whole_ms, "Milliseconds for the whole request; 0: any");
  command.option("--seed", o->load.seed, "Of the prompts' words and the times of arrival");
  command.flag("--completions", o->completions, "Ask /v1/completions, not /v1/chat/completions");
  command.flag("--json", o->json, "Print JSON");
  command.example("ingot bench serve --clients 8 --requests 64", "a server on this machine, 8 at a time");
  command.example("ingot bench serve --rate 4 --mixed-lengths --slo-ttft 500 --slo-tpot 50",
                  "people who come at random, and how many of them are served in time");
  command.run([o] { return run(*o); });
}

}  // namespace ingot::cli
