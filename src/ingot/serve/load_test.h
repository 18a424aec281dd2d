#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ingot/serve/http.h"

namespace ingot::serve {

struct LoadTestOptions {
  std::string url = "http://127.0.0.1:8000";  ///< before /v1/...
  std::string model{};                        ///< empty: not named
  HttpHeaders headers{};                      ///< Authorization, say
  std::int64_t clients = 8;                   ///< each asks again as soon as it has its answer (closed loop)
  double rate = 0;  ///< requests a second that arrive at random instead (open loop); 0: none
  std::int64_t requests = 64;
  std::int64_t prompt_words = 200;
  std::int64_t shared_words = 0;  ///< the first so many are the same in all prompts
  std::int64_t max_tokens = 64;
  /// Prompts and answers differ in length as those of conversations do: log-normal, with prompt_words and
  /// max_tokens as their means (up to eight times as long).
  bool mixed_lengths = false;
  bool chat = true;        ///< /v1/chat/completions, or /v1/completions
  std::uint64_t seed = 0;  ///< of the prompts and the times of arrival

  /// Throws InvalidConfig naming the option.
  void validate() const;
};

/// One request, times in seconds.
struct RequestTiming {
  std::string error{};  ///< empty: none
  /// To the first text, thought or call of a tool; 0: none came.
  double first_token = 0;
  double whole = 0;
  std::vector<double> gaps{};                  ///< between two pieces of text
  std::int64_t prompt_tokens = 0, tokens = 0;  ///< as the server says in `usage`; 0: it does not
};

struct LoadTestResult {
  double seconds = 0;  ///< from the first request to the last answer
  std::vector<RequestTiming> requests;
};

/// What a request may take, in seconds; 0: any time.
struct ServiceLevel {
  double first_token = 0;
  /// On average, behind the first. A piece of text counts as a token where `usage` is missing.
  double per_token = 0;
  double whole = 0;
  bool is_set() const { return first_token > 0 || per_token > 0 || whole > 0; }
  /// Whether an answer with text came, and in time.
  bool met_by(const RequestTiming& request) const;
};

/// Asks a server with OpenAI's API as many clients do, streaming.
LoadTestResult run_load_test(const LoadTestOptions& options);

/// The value that a share of them, 0 to 1, does not exceed; 0 of none.
double percentile(std::vector<double> values, double share);

}  // namespace ingot::serve
