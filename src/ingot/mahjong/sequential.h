#pragma once

#include <cstdint>
#include <string_view>

namespace ingot::mahjong {

/// A generalized sequential probability ratio test of a mean: after each observation it says whether the mean
/// is 0 (no better) or -`margin` (better by that many places), or that more are needed. The likelihood ratio
/// is that of normal observations with the variance seen so far, as chess engines' testers use it.
struct SequentialOptions {
  double margin = 0.1;      ///< the difference of places that is worth finding, > 0
  double error = 0.05;      ///< chance of either wrong answer, in (0, 0.5)
  std::int64_t least = 32;  ///< observations before the first answer: the variance is an estimate
};

enum class Verdict : std::uint8_t { Open, Better, NoBetter };
/// "open", "better" or "no better".
std::string_view verdict_name(Verdict verdict);

class SequentialTest {
 public:
  /// Throws InvalidConfig naming the option that cannot be used.
  explicit SequentialTest(const SequentialOptions& options);

  /// One independent observation: by how many places the first is behind; negative where it is ahead.
  /// Ignored once the verdict is not open.
  void add(double difference);
  Verdict verdict() const { return verdict_; }
  std::int64_t observations() const { return count_; }
  /// Of better to no better; 0 before the second observation.
  double log_likelihood_ratio() const;
  /// The verdict is better from here on, and no better from minus this on.
  double bound() const { return bound_; }

 private:
  SequentialOptions options_;
  double bound_;
  std::int64_t count_ = 0;
  double mean_ = 0, squares_ = 0;
  Verdict verdict_ = Verdict::Open;
};

}  // namespace ingot::mahjong
