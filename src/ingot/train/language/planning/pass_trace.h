#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ingot/core/memory.h"
#include "ingot/models/language/decoder.h"

namespace ingot {

/// A stretch of a pass in which no gradient becomes final, and no layer's weights come or go.
struct PassMoment {
  std::size_t most = 0;        ///< bytes at most, beside what was there before the pass
  std::size_t left = 0;        ///< the same at its end
  std::size_t gradients = 0;   ///< of these, gradients of parameters
  std::int32_t layers = 0;     ///< whose weights are used, or fetched, where they come and go
  std::int32_t gradient = -1;  ///< of PassTrace::gradients(): what becomes final at its end; -1: nothing
};

/// A parameter that trains.
struct PlannedGradient {
  std::string name;
  std::size_t bytes = 0;
  bool is_matrix = false;
};

/// Writes down what a dry pass takes, moment by moment: of the whole, whatever ranks make of it. Layers'
/// weights stay; that they would come and go is counted.
class PassTrace {
 public:
  /// `gradients`: whether to watch them; not where another hook does. Both outlive this.
  PassTrace(LanguageModel& model, MemoryTracker& memory, bool gradients);
  ~PassTrace();
  PassTrace(const PassTrace&) = delete;
  PassTrace& operator=(const PassTrace&) = delete;

  void begin();
  std::vector<PassMoment> end();
  /// In the order of parameters().
  const std::vector<PlannedGradient>& gradients() const { return gradients_; }

 private:
  class Layers;
  void mark(std::int32_t gradient);

  LanguageModel& model_;
  MemoryTracker& memory_;
  std::vector<PlannedGradient> gradients_;
  std::vector<Tensor> watched_;
  std::unique_ptr<Layers> layers_;
  std::vector<PassMoment> moments_;
  std::size_t before_ = 0, gradients_before_ = 0;
};

}  // namespace ingot
