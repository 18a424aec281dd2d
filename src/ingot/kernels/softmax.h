#pragma once

#include "ingot/kernels/kernel.h"

namespace ingot::kernels {

// On the last axis. x, y, dy, dx: [..., n], contiguous, of one floating dtype. Arithmetic is f32 (f64 for
// f64).

/// y = exp(x − m) / Σ exp(x − m) with m = max x; or, with `log`, its logarithm.
struct SoftmaxArgs {
  View x, y;
  bool log = false;
};
inline Kernel<SoftmaxArgs> softmax("softmax");

/// dx = y·(dy − Σ y·dy); with `log`: dx = dy − exp(y)·Σ dy.
struct SoftmaxBackwardArgs {
  View y, dy, dx;
  bool log = false;
  bool accumulate = false;
};
inline Kernel<SoftmaxBackwardArgs> softmax_backward("softmax_backward");

/// y[...] = log Σ exp(x). −∞ where all of x is.
struct LogSumExpArgs {
  View x, y;
};
inline Kernel<LogSumExpArgs> logsumexp("logsumexp");

/// dx = dy·exp(x − y); y and dy have a value per row.
struct LogSumExpBackwardArgs {
  View x, y, dy, dx;
  bool accumulate = false;
};
inline Kernel<LogSumExpBackwardArgs> logsumexp_backward("logsumexp_backward");

}  // namespace ingot::kernels
