#include "ingot/mahjong/sequential.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "ingot/base/error.h"

namespace ingot::mahjong {

std::string_view verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::Better:
      return "better";
    case Verdict::NoBetter:
      return "no better";
    case Verdict::Open:
      break;
  }
  return "open";
}

SequentialTest::SequentialTest(const SequentialOptions& options)
    : options_(options), bound_(std::log((1 - options.error) / options.error)) {
  INGOT_CHECK(options.margin > 0 && options.margin <= 3,
              InvalidConfig("sequential",
                            fmt::format("is {} places, expected more than 0, at most 3", options.margin)));
  INGOT_CHECK(options.error > 0 && options.error < 0.5,
              InvalidConfig("error", fmt::format("is {}, expected between 0 and 0.5", options.error)));
  INGOT_CHECK(options.least >= 2,
              InvalidConfig("least", fmt::format("is {}, expected 2 or more", options.least)));
}

void SequentialTest::add(double difference) {
  if (verdict_ != Verdict::Open) return;
  ++count_;
  const double step = difference - mean_;
  mean_ += step / static_cast<double>(count_);
  squares_ += step * (difference - mean_);
  if (count_ < options_.least) return;
  const double ratio = log_likelihood_ratio();
  if (ratio >= bound_) verdict_ = Verdict::Better;
  if (ratio <= -bound_) verdict_ = Verdict::NoBetter;
}

double SequentialTest::log_likelihood_ratio() const {
  if (count_ < 2) return 0;
  const auto n = static_cast<double>(count_);
  const double towards = -mean_ - options_.margin / 2;  // from the middle of both means
  // Equal observations have no spread to measure by: a thousandth of the margin stands in for it.
  const double variance = std::max(squares_ / (n - 1), options_.margin * options_.margin * 1e-6);
  return n * options_.margin * towards / variance;
}

}  // namespace ingot::mahjong
