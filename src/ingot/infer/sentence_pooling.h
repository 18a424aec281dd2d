#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/infer/sentence_config.h"

namespace ingot {

/// Joins what each pooling makes of rows [skipped, count) of `rows` [count, width]: `out` gets
/// poolings.size() · width numbers. Weights of weighted_mean count from the first row, skipped or not. Where
/// all rows are to be skipped, none is.
void pool(std::span<const Pooling> poolings, const float* rows, std::int64_t count, std::int64_t width,
          std::int64_t skipped, float* out);

/// f32 [texts, width] on the host, each vector divided by its length; zeros stay zeros.
Tensor normalized(const Tensor& vectors);

/// The modules behind pooling, with their weights.
class SentenceHead {
 public:
  /// `width`: of pooled vectors. Throws IoError, ShapeMismatch, NotImplemented for an activation that Ingot
  /// lacks.
  SentenceHead(const std::vector<SentenceStage>& stages, std::int64_t width);
  /// f32 [texts, width] on the host -> [texts, width()].
  Tensor operator()(Tensor vectors) const;
  std::int64_t width() const { return width_; }

 private:
  struct Layer {
    SentenceStage stage;
    Tensor weight, bias, residual;
  };
  std::vector<Layer> layers_;
  std::int64_t width_;
};

}  // namespace ingot
