#pragma once

#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

struct EmbeddingOptions {
  std::int64_t count = 0;  ///< of embeddings: the vocabulary
  std::int64_t width = 0;
  Init weight_init = init::Normal{};
  void validate() const;
};

/// Rows of a table by index: [...] of i64 or i32 -> [..., width]. Parameter: weight [count, width].
struct Embedding {
  Embedding(const ParamSource& source, const EmbeddingOptions& options);
  Tensor operator()(const Tensor& indices) const;
  void visit(ParamVisitor& v);

  Parameter weight;
};

}  // namespace ingot
