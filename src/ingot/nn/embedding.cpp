#include "ingot/nn/embedding.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/ops/index.h"

namespace ingot {
namespace {

const EmbeddingOptions& validated(const EmbeddingOptions& options) {
  options.validate();
  return options;
}

}  // namespace

void EmbeddingOptions::validate() const {
  INGOT_CHECK(count > 0, InvalidConfig("embedding.count", fmt::format("must be positive, got {}", count)));
  INGOT_CHECK(width > 0, InvalidConfig("embedding.width", fmt::format("must be positive, got {}", width)));
}

Embedding::Embedding(const ParamSource& source, const EmbeddingOptions& options)
    : weight(source.take("weight", {validated(options).count, options.width}, options.weight_init)) {}

Tensor Embedding::operator()(const Tensor& indices) const { return embedding(weight.value, indices); }

void Embedding::visit(ParamVisitor& v) { v("weight", weight); }

}  // namespace ingot
