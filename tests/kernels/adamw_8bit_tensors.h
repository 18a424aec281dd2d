#pragma once

#include "ingot/core/tensor.h"
#include "ingot/kernels/optimizer.h"

namespace ingot::test {

/// A parameter with what a step of AdamW with 8-bit moments reads and changes.
struct AdamW8bitTensors {
  Tensor p, g, m, v, m_scale, v_scale;
  Tensor master{};  ///< undefined: none

  kernels::AdamWTensor tensor() const {
    return {.param = p.view(),
            .grad = g.view(),
            .m = m.view(),
            .v = v.view(),
            .m_scale = m_scale.view(),
            .v_scale = v_scale.view(),
            .master = master.defined() ? master.view() : View{},
            .lr = 0.01,
            .weight_decay = 0.1,
            .bias_correction1 = 0.271,
            .bias_correction2 = 0.002997};
  }
};

}  // namespace ingot::test
