#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ingot/infer/scheduler.h"

namespace ingot::serve {

/// Counts of values up to each of some bounds, and their sum, as Prometheus has them.
class Histogram {
 public:
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}
  void add(double value);
  /// "NAME_bucket{LABELS,le=...} ...", _sum and _count.
  void write(std::string& to, const std::string& name, const std::string& labels) const;

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;  // of each bucket alone
  double sum_ = 0;
};

/// What a finished choice tells, times in seconds.
struct FinishedChoice {
  infer::StopReason reason{};
  std::string adapter{};  ///< infer::Request::adapter
  std::int64_t prompt_tokens = 0, tokens = 0, cached_tokens = 0;
  std::int64_t counted_tokens = 0;  ///< of `tokens`, by add_tokens() while they came
  std::int64_t drafted = 0, accepted = 0;
  double queue = 0, first_token = 0, whole = 0;
  bool has_token = false;
};

/// What a model did. Any thread may use it.
class ModelMetrics {
 public:
  explicit ModelMetrics(const std::string& model);

  void add(const FinishedChoice& choice);
  void add_tokens(std::size_t count);  ///< of a choice that is being written
  void add_gap(double seconds);        ///< between two pieces of text of one choice

 private:
  friend class Metrics;
  struct OfAdapter {
    std::uint64_t requests = 0, prompt_tokens = 0, tokens = 0;
  };
  const std::string labels_;
  mutable std::mutex mutex_;
  Histogram first_token_, gap_, whole_, queue_, prompt_, generation_;
  std::map<std::string, std::uint64_t> finished_;
  std::map<std::string, OfAdapter> adapters_;
  std::uint64_t prompt_tokens_ = 0, tokens_ = 0, cached_ = 0, drafted_ = 0, accepted_ = 0;
};

/// What the server did, for GET /metrics: vLLM's names where it has one. Any thread may use it.
class Metrics {
 public:
  explicit Metrics(const std::vector<std::string>& models);

  ModelMetrics& of(const std::string& model) { return models_.at(model); }
  void add_http(int status);

  /// Prometheus' text format; `engines`: of the models that are loaded.
  std::string text(const std::vector<std::pair<std::string, infer::EngineStats>>& engines,
                   std::size_t connections) const;

 private:
  void write_adapters(std::string& to,
                      const std::vector<std::pair<std::string, infer::EngineStats>>& engines) const;

  std::map<std::string, ModelMetrics> models_;
  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> statuses_;
};

}  // namespace ingot::serve
