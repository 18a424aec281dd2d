#include "ingot/ops/lstm.h"

#include <string>

#include "ingot/base/error.h"
#include "ingot/kernels/lstm.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/common.h"

namespace ingot {

bool takes_lstm_cell(const Tensor& gates) {
  return gates.dtype() == DType::f32 && !kernels::lstm_cell.implementations(gates.device().type).empty();
}

LstmState lstm_cell(const Tensor& given_gates, const Tensor& given_c) {
  const OpScope scope("lstm_cell", {&given_gates, &given_c}, false);
  INGOT_CHECK(given_gates.rank() == 2 && given_c.rank() == 2 &&
                  given_gates.shape() == Shape({given_c.dim(0), 4 * given_c.dim(1)}),
              ShapeMismatch("lstm_cell", given_c.shape().to_vector(), given_gates.shape().to_vector(),
                            "gates are [N, 4H] for a state of [N, H]"));
  INGOT_CHECK(
      given_gates.dtype() == DType::f32 && given_c.dtype() == DType::f32,
      DimensionMismatch("lstm_cell: gates and c are f32, got " + std::string(name(given_gates.dtype())) +
                        " and " + std::string(name(given_c.dtype())) + "; cast them"));
  const Tensor gates = contiguous(given_gates), c = contiguous(given_c);
  LstmState next{Tensor::empty(c.shape(), c.dtype(), c.device()),
                 Tensor::empty(c.shape(), c.dtype(), c.device())};
  kernels::launch(kernels::lstm_cell, current_stream(c.device()),
                  {.gates = gates.view(), .c = c.view(), .c_next = next.c.view(), .h = next.h.view()});
  return next;
}

}  // namespace ingot
