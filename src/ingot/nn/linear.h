#pragma once

#include <optional>

#include "ingot/nn/linear_weight.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

struct LinearOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  std::optional<Init> weight_init = std::nullopt;  ///< default, as PyTorch's: uniform in +-1/sqrt(in)
  std::optional<Init> bias_init = std::nullopt;    ///< default, as PyTorch's: uniform in +-1/sqrt(in)
  void validate() const;
};

/// y = x weight^T + bias: [..., in] -> [..., out]. Parameters: weight [out, in], bias [out].
struct Linear {
  Linear(const ParamSource& source, const LinearOptions& options);
  Tensor operator()(const LinearInput& x) const { return weight(x, bias.value); }
  void visit(ParamVisitor& v);

  /// Whether it quantizes its input to eight bits, so that what leads there may be rounded to more.
  bool quantizes_input() const { return weight.quantizes_input(); }
  Device device() const { return weight.device(); }

  LinearWeight weight;
  Parameter bias;
};

}  // namespace ingot
