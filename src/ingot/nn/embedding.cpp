#include "ingot/nn/embedding.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/validated.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/index.h"
#include "ingot/ops/view.h"

namespace ingot {
void EmbeddingOptions::validate() const {
  INGOT_CHECK(count > 0, InvalidConfig("embedding.count", fmt::format("must be positive, got {}", count)));
  INGOT_CHECK(width > 0, InvalidConfig("embedding.width", fmt::format("must be positive, got {}", width)));
}

Embedding::Embedding(const ParamSource& source, const EmbeddingOptions& options)
    : packed(validated(options).packable ? source.take_packed("weight", {options.count, options.width})
                                         : nullptr),
      weight(packed == nullptr ? source.take("weight", {options.count, options.width}, options.weight_init)
                               : Parameter{}) {
  weight.embedding = true;
}

Tensor Embedding::operator()(const Tensor& indices) const {
  if (packed == nullptr) return embedding(weight.value, indices);
  const Tensor ids = reshape(contiguous(to(indices, DType::i64)), {indices.numel()});
  return reshape(quant::rows(*packed, ids), indices.shape().insert(indices.rank(), packed->cols));
}

void Embedding::visit(ParamVisitor& v) { v("weight", weight); }

}  // namespace ingot
