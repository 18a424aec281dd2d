#pragma once

#include "ingot/core/tensor.h"

namespace ingot {

struct LstmState {
  Tensor h, c;  ///< [N, H]
};

/// Whether lstm_cell takes these gates: f32, on a device with a kernel for it.
bool takes_lstm_cell(const Tensor& gates);
/// What a step of an LSTM does with its gates before their activations, [N, 4H] in ONNX' order (input,
/// output, forget, cell), and the state c, [N, H]: c' = σ(forget)·c + σ(input)·tanh(cell), h' =
/// σ(output)·tanh(c'). Both are f32. For inference: no gradients. Throws ShapeMismatch, DimensionMismatch.
LstmState lstm_cell(const Tensor& gates, const Tensor& c);

}  // namespace ingot
