#pragma once

#include "ingot/core/tensor.h"
#include "ingot/kernels/attention.h"
#include "ingot/kernels/kernel_traits.h"

namespace ingot {

/// Launches attention in the current stream of its queries' device, with the scratch that a GPU needs to
/// split the keys of few queries.
inline void launch_attention(kernels::AttentionArgs args) {
  const Device device = args.q.device;
  Tensor scratch;
  const bool takes_scratch = kernels::kernel_traits(device).scratch;
  if (const std::int64_t room = takes_scratch ? kernels::attention_scratch(args) : 0; room > 0) {
    scratch = Tensor::empty({room}, DType::f32, device);
    args.scratch = scratch.view();
  }
  kernels::launch(kernels::attention, current_stream(device), args);
}

}  // namespace ingot
