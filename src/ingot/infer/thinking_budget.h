#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ingot::infer {

/// How many tokens a model may think before its answer.
struct ThinkingBudget {
  std::int64_t tokens = -1;             ///< between the markers; −1: any number
  std::vector<std::int32_t> begin{};    ///< the marker in front of thoughts
  std::vector<std::int32_t> end{};      ///< and behind them
  std::vector<std::int32_t> closing{};  ///< what is written in place of more thoughts; empty: the end marker
  bool begun = false;                   ///< by the prompt

  bool limits() const { return tokens >= 0 && !end.empty(); }
};

/// Follows a sequence while it is written, and says what has to come where it has thought enough. Thoughts
/// that begin later have a budget of their own.
class ThinkingGuide {
 public:
  explicit ThinkingGuide(ThinkingBudget budget);

  /// The next token, where no other may come.
  std::optional<std::int32_t> forced() const;
  /// Goes on by a token.
  void take(std::int32_t token);

 private:
  enum class Phase : std::uint8_t { outside, thinking, closing };

  ThinkingBudget budget_;
  Phase phase_ = Phase::outside;
  std::int64_t left_ = 0;             // tokens of these thoughts
  std::size_t closed_ = 0;            // tokens of what closes them
  std::vector<std::int32_t> recent_;  // as many as a marker has
};

}  // namespace ingot::infer
