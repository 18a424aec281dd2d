#include "ingot/serve/load_test.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <numbers>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "ingot/base/error.h"
#include "ingot/base/json.h"
#include "ingot/base/rng.h"
#include "ingot/serve/event_stream.h"
#include "ingot/serve/http_client.h"

namespace ingot::serve {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

constexpr const char* kWords[] = {"river",  "stone",  "light",  "garden", "winter", "letter",
                                  "engine", "number", "summer", "paper",  "table",  "window",
                                  "forest", "island", "market", "signal"};

void add_words(std::string& to, std::int64_t count, Rng& random) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (!to.empty()) to += ' ';
    to += kWords[static_cast<std::size_t>(random.uniform_double() * std::size(kWords))];
  }
}

// Log-normal with this mean, at least 1. ShareGPT's conversations have a deviation of about 1 in the
// logarithm.
std::int64_t drawn_length(std::int64_t mean, Rng& random) {
  constexpr double kDeviation = 1, kMostTimes = 8;
  const double radius = std::sqrt(-2 * std::log1p(-random.uniform_double()));
  const double normal = radius * std::cos(2 * std::numbers::pi * random.uniform_double());
  const double times = std::exp(kDeviation * normal - kDeviation * kDeviation / 2);
  return std::max<std::int64_t>(1, std::llround(static_cast<double>(mean) * std::min(times, kMostTimes)));
}

std::string body_of(const LoadTestOptions& o, std::uint64_t index) {
  Rng shared(RngKey{o.seed, 0}), own(RngKey{o.seed, index + 1}), length(RngKey{o.seed + 1, index + 1});
  std::int64_t own_words = o.prompt_words - o.shared_words, tokens = o.max_tokens;
  if (o.mixed_lengths) {
    if (own_words > 0) own_words = drawn_length(own_words, length);
    tokens = drawn_length(tokens, length);
  }
  std::string text;
  add_words(text, o.shared_words, shared);
  add_words(text, own_words, own);
  Json body = {{"max_tokens", tokens},
               {"temperature", 0},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}},
               {"ignore_eos", true}};
  if (!o.model.empty()) body["model"] = o.model;
  if (o.chat) {
    body["messages"] = Json::array({{{"role", "user"}, {"content", text}}});
  } else {
    body["prompt"] = text;
  }
  return dump_json(body);
}

// Reads events as they come.
class StreamTimer {
 public:
  StreamTimer(RequestTiming& timing, Clock::time_point start) : timing_(timing), start_(start) {}

  void take(std::string_view piece) {
    events_.take(piece, [this](const std::string& data) { take_event(data); });
  }

 private:
  void take_event(const std::string& data) {
    const Json json = parse_json_or_discard<Json>(data);
    if (!json.is_object()) return;  // [DONE]
    if (json.contains("error")) timing_.error = excerpt(json["error"], 200);
    if (json.contains("usage") && json["usage"].is_object()) {
      timing_.prompt_tokens = json["usage"].value("prompt_tokens", std::int64_t{0});
      timing_.tokens = json["usage"].value("completion_tokens", std::int64_t{0});
    }
    if (!json.contains("choices") || json["choices"].empty()) return;
    const Json& choice = json["choices"][0];
    const bool text = choice.contains("text") ? holds_text(choice, "text")
                                              : choice.contains("delta") && choice["delta"].is_object() &&
                                                    has_text(choice["delta"]);
    if (text) take_text();
  }
  static bool has_text(const Json& delta) {
    for (const char* key : {"content", "reasoning_content", "reasoning"})
      if (holds_text(delta, key)) return true;
    const auto calls = delta.find("tool_calls");
    return calls != delta.end() && calls->is_array() && !calls->empty();
  }
  static bool holds_text(const Json& object, const char* key) {
    return object.contains(key) && object[key].is_string() &&
           !object[key].get_ref<const std::string&>().empty();
  }
  void take_text() {
    const Clock::time_point now = Clock::now();
    if (last_ == Clock::time_point{}) {
      timing_.first_token = seconds_between(start_, now);
    } else {
      timing_.gaps.push_back(seconds_between(last_, now));
    }
    last_ = now;
  }

  RequestTiming& timing_;
  Clock::time_point start_, last_{};
  EventReader events_;
};

RequestTiming ask(HttpClient& client, const LoadTestOptions& o, std::uint64_t index) {
  RequestTiming timing;
  const std::string body = body_of(o, index);
  const Clock::time_point start = Clock::now();
  StreamTimer timer(timing, start);
  try {
    const ClientResponse response = client.post(o.chat ? "/v1/chat/completions" : "/v1/completions", body,
                                                o.headers, [&](std::string_view piece) {
                                                  timer.take(piece);
                                                  return true;
                                                });
    if (response.status != 200)
      timing.error = fmt::format("status {}: {}", response.status, response.body.substr(0, 200));
  } catch (const Error& error) {
    timing.error = error.what();
    client.close();
  }
  timing.whole = seconds_between(start, Clock::now());
  return timing;
}

// When each request of an open loop comes: exponential gaps, as of independent people.
std::vector<double> arrivals(const LoadTestOptions& o) {
  Rng random(RngKey{o.seed, 0x61727269});
  std::vector<double> times;
  double time = 0;
  for (std::int64_t i = 0; i < o.requests; ++i) {
    times.push_back(time);
    time -= std::log1p(-random.uniform_double()) / o.rate;
  }
  return times;
}

}  // namespace

void LoadTestOptions::validate() const {
  const auto check = [](bool good, const char* option, const char* range) {
    INGOT_CHECK(good, InvalidConfig(option, std::string("must be ") + range));
  };
  check(clients >= 1 && clients <= 4096, "clients", "1 to 4096");
  check(requests >= 1, "requests", "1 or more");
  check(rate >= 0 && std::isfinite(rate), "rate", "0 (closed loop) or more");
  check(prompt_words >= 1, "prompt_words", "1 or more");
  check(shared_words >= 0 && shared_words <= prompt_words, "shared_words", "0 to prompt_words");
  check(max_tokens >= 1, "max_tokens", "1 or more");
}

LoadTestResult run_load_test(const LoadTestOptions& options) {
  options.validate();
  LoadTestResult result;
  result.requests.resize(static_cast<std::size_t>(options.requests));
  const std::vector<double> times = options.rate > 0 ? arrivals(options) : std::vector<double>();
  // Of an open loop every request may be under way at once.
  const std::int64_t clients =
      std::min(options.rate > 0 ? std::int64_t{4096} : options.clients, options.requests);
  std::atomic<std::size_t> next{0};
  const Clock::time_point start = Clock::now();
  std::vector<std::thread> threads;
  for (std::int64_t i = 0; i < clients; ++i) {
    threads.emplace_back([&] {
      HttpClient client(options.url);
      for (std::size_t at = next++; at < result.requests.size(); at = next++) {
        if (!times.empty())
          std::this_thread::sleep_until(
              start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(times[at])));
        result.requests[at] = ask(client, options, at);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  result.seconds = seconds_between(start, Clock::now());
  return result;
}

bool ServiceLevel::met_by(const RequestTiming& request) const {
  const auto within = [](double seconds, double most) { return most == 0 || seconds <= most; };
  const std::int64_t further = request.tokens > 0 ? request.tokens - 1 : std::ssize(request.gaps);
  const double per_next =
      further > 0 ? (request.whole - request.first_token) / static_cast<double>(further) : 0;
  const bool has_text = request.first_token > 0;
  return request.error.empty() && has_text && within(request.first_token, first_token) &&
         within(per_next, per_token) && within(request.whole, whole);
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(values.size()))) - 1;
  const auto at = values.begin() + std::clamp<std::ptrdiff_t>(rank, 0, std::ssize(values) - 1);
  std::ranges::nth_element(values, at);
  return *at;
}

}  // namespace ingot::serve
