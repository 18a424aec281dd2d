#include "ingot/nn/embedding.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/base/validated.h"

namespace ingot {
void EmbeddingOptions::validate() const {
  INGOT_CHECK(count > 0, InvalidConfig("embedding.count", fmt::format("must be positive, got {}", count)));
  INGOT_CHECK(width > 0, InvalidConfig("embedding.width", fmt::format("must be positive, got {}", width)));
}

Embedding::Embedding(const ParamSource& source, const EmbeddingOptions& options)
    : weight(source, "weight", {validated(options).count, options.width}, options.weight_init,
             options.quantizable) {
  weight.dense.embedding = true;
}

}  // namespace ingot
