#pragma once

#include "ingot/ops/cached_attention.h"

namespace ingot {

/// Causal attention of q [n, Hq, D] on one sequence of no i8, from matmuls and a softmax over all its keys:
/// for heads that no kernel of the device takes, such as the latents of multi-head latent attention on a GPU.
/// Of the options scale (not 0), window and softcap count. Gives [n, Hq, Dv] in q's dtype. No gradients.
Tensor composed_attention(const Tensor& q, const CachedSequence& sequence, const AttentionOptions& options);

}  // namespace ingot
