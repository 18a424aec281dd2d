#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "ingot/infer/scheduler.h"

namespace ingot::serve {

/// Counts of values up to each of some bounds, and their sum, as Prometheus has them.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  /// "NAME_bucket{LABELS,le=...} ...", _sum and _count, with help and type.
  void write(std::string& to, const std::string& name, const std::string& labels, const char* help) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;  // of each bucket alone
  double sum_ = 0;
};

/// What a finished choice tells, times in seconds.
struct FinishedChoice {
  infer::StopReason reason{};
  std::int64_t prompt_tokens = 0, tokens = 0, cached_tokens = 0;
  std::int64_t counted_tokens = 0;  ///< of `tokens`, by add_tokens() while they came
  std::int64_t drafted = 0, accepted = 0;
  double queue = 0, first_token = 0, whole = 0;
  bool has_token = false;
};

/// What the server did, for GET /metrics: vLLM's names where it has one. Any thread may use it.
class Metrics {
 public:
  explicit Metrics(std::string model);

  void add(const FinishedChoice& choice);
  void add_tokens(std::size_t count);  ///< of a choice that is being written
  void add_gap(double seconds);        ///< between two pieces of text of one choice
  void add_http(int status);

  /// Prometheus' text format.
  std::string text(const infer::EngineStats& engine, std::size_t connections) const;

 private:
  const std::string labels_;
  mutable std::mutex mutex_;
  Histogram first_token_, gap_, whole_, queue_, prompt_, generation_;
  std::map<std::string, std::uint64_t> finished_;
  std::map<int, std::uint64_t> statuses_;
  std::uint64_t prompt_tokens_ = 0, tokens_ = 0, cached_ = 0, drafted_ = 0, accepted_ = 0;
};

}  // namespace ingot::serve
