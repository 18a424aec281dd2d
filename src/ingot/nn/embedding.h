#pragma once

#include "ingot/nn/linear_weight.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

struct EmbeddingOptions {
  std::int64_t count = 0;  ///< of embeddings: the vocabulary
  std::int64_t width = 0;
  Init weight_init = init::Normal{};
  bool quantizable = true;  ///< false: dense even where the source has it quantized
  void validate() const;
};

/// Rows of a table by index: [...] of i64 or i32 -> [..., width]. Parameter: weight [count, width]. Rows of a
/// quantized table are f32.
struct Embedding {
  Embedding(const ParamSource& source, const EmbeddingOptions& options);
  Tensor operator()(const Tensor& indices) const { return weight.rows(indices); }
  void visit(ParamVisitor& v) { v("weight", weight); }

  LinearWeight weight;
};

}  // namespace ingot
