#pragma once

#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

struct EmbeddingOptions {
  std::int64_t count = 0;  ///< of embeddings: the vocabulary
  std::int64_t width = 0;
  Init weight_init = init::Normal{};
  bool packable = true;  ///< false: never quantised, for tables whose whole weight a model uses
  void validate() const;
};

/// Rows of a table by index: [...] of i64 or i32 -> [..., width]. Parameter: weight [count, width]. A source
/// of quantised weights gives `packed` in its place; rows are f32 then, and the module serves inference only.
struct Embedding {
  Embedding(const ParamSource& source, const EmbeddingOptions& options);
  Tensor operator()(const Tensor& indices) const;
  void visit(ParamVisitor& v);

  quant::PackedPtr packed;  ///< null: `weight` is there
  Parameter weight;
};

}  // namespace ingot
