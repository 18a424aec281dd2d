#include "ingot/kernels/index.h"

#include "ingot/kernels/kernel_traits.h"

namespace ingot::kernels {

std::int64_t embedding_scratch(const View& ids) {
  if (!kernel_traits(ids.device).scratch) return 0;
  const std::int64_t n = ids.numel(), tiles = (n + kEmbeddingTile - 1) / kEmbeddingTile;
  return 2 * n + tiles * kEmbeddingDigits;
}

}  // namespace ingot::kernels
