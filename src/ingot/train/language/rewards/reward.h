#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingot/base/error.h"

namespace ingot {

class ConfigReader;

/// What scores the answers of a run.
struct RewardConfig {
  std::string type;  ///< "regex", "json", "json_schema", "math", "command", "http"
  std::string name;  ///< in metrics and messages; empty: the type
  double weight = 1;
  std::string pattern;           ///< regex
  std::string schema;            ///< json_schema: a JSON text
  std::string answer{"answer"};  ///< math: the member of the record that holds the right one
  std::string command;           ///< command: what /bin/sh runs
  std::string url;               ///< http: where the answers are posted to
  double seconds = 60;           ///< command and http: how long all answers of a step may take
};

/// Reads an entry of `rewards`. Errors name the key.
RewardConfig read_reward(const ConfigReader& entry);

/// An answer to be scored. It names what outlives the call.
struct AnswerToScore {
  std::string_view prompt, answer;
  std::string_view record;  ///< that the prompt came from: a JSON object
};

/// What a reward could not do, and with which of the answers.
class RewardFailure : public Error {
 public:
  RewardFailure(std::size_t which, const std::string& problem) : Error(problem), answer(which) {}
  std::string_view kind() const noexcept override { return "reward_failure"; }
  std::size_t answer;
};

class Reward {
 public:
  Reward() = default;
  virtual ~Reward() = default;
  Reward(const Reward&) = delete;
  Reward& operator=(const Reward&) = delete;

  /// A finite number for each answer, more for better ones. RewardFailure.
  virtual std::vector<double> score(std::span<const AnswerToScore> answers) = 0;
};

/// InvalidConfig where the pattern or the schema is not understood.
std::unique_ptr<Reward> make_reward(const RewardConfig& config);

/// Whether the answer's \boxed{...}, else its last number, is the right one: numbers by value (1/2 is 0.5,
/// 1,000 is 1000), other texts by their characters. Of `right`, what is behind "####" counts, as in GSM8K.
bool is_right_answer(std::string_view answer, std::string_view right);

}  // namespace ingot
