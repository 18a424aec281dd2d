#pragma once

#include "ingot/ops/attention.h"
#include "ingot/ops/cached_attention.h"

namespace ingot {

/// What attention() computes, from matmuls and a softmax over all keys, S × T scores of each head: for heads
/// that no kernel of the device takes. options.scale is not 0. Gradients are those of its operations.
Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);

/// The same of q [n, Hq, D] on one sequence of no i8, such as the latents of multi-head latent attention on a
/// GPU. Of the options scale, window, chunk and softcap count. Gives [n, Hq, Dv] in q's dtype. No gradients.
Tensor composed_attention(const Tensor& q, const CachedSequence& sequence, const AttentionOptions& options);

}  // namespace ingot
