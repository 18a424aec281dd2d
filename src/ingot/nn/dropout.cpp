#include "ingot/nn/dropout.h"

#include <fmt/format.h>

#include "ingot/base/error.h"
#include "ingot/ops/random.h"

namespace ingot {

Dropout::Dropout(double p_) : p(p_) {
  INGOT_CHECK(p >= 0 && p < 1, InvalidConfig("dropout", fmt::format("must be in [0, 1), got {}", p)));
}

Tensor Dropout::operator()(const Tensor& x) const { return training && p > 0 ? dropout(x, p) : x; }

}  // namespace ingot
