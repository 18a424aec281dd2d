#pragma once

#include <optional>

#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"
#include "ingot/quant/linear.h"

namespace ingot {

struct LinearOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
  std::optional<Init> weight_init = std::nullopt;  ///< default, as PyTorch's: uniform in +-1/sqrt(in)
  std::optional<Init> bias_init = std::nullopt;    ///< default, as PyTorch's: uniform in +-1/sqrt(in)
  void validate() const;
};

/// y = x weight^T + bias: [..., in] -> [..., out]. Parameters: weight [out, in], bias [out]. A source of
/// quantised weights gives `packed` in the weight's place; the module then serves inference only.
struct Linear {
  Linear(const ParamSource& source, const LinearOptions& options);
  Tensor operator()(const Tensor& x) const;
  /// The same for an input that several modules share, so that it is rounded once for all of them.
  Tensor operator()(const quant::Activations& x) const;
  void visit(ParamVisitor& v);

  quant::PackedPtr packed;  ///< null: `weight` is there
  Parameter weight, bias;
};

}  // namespace ingot
