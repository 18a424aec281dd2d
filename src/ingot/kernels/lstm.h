#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

/// What a step of an LSTM does with its gates, before their activations: gates [N, 4H] in the order input,
/// output, forget, cell; with σ the logistic function
///   c_next = σ(forget)·c + σ(input)·tanh(cell);  h = σ(output)·tanh(c_next).
/// c, c_next, h: [N, H]. f32, contiguous; c_next may be c.
struct LstmCellArgs {
  View gates, c, c_next, h;
};
inline Kernel<LstmCellArgs> lstm_cell("lstm_cell");  // CPU only: GPUs take the operations one by one

}  // namespace ingot::kernels
