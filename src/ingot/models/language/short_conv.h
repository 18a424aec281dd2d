#pragma once

#include <cstdint>

#include "ingot/models/language/config.h"
#include "ingot/models/language/decoder_attention.h"
#include "ingot/nn/linear.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

/// LFM2's short convolution, instead of attention (LFM2 technical report, arXiv:2511.23404): the input
/// is projected to B, C and x, and the result is out_proj(C · conv(B · x)), conv a depthwise causal
/// convolution of conv_L_cache steps.
struct ShortConv {
  ShortConv(const ParamSource& source, const LanguageConfig& config);
  /// x: [batch, sequence, hidden]. Undefined where no row is wanted.
  Tensor operator()(const LinearInput& x, const DecoderContext& context, std::int64_t layer) const;
  void visit(ParamVisitor& v);

  Linear in_proj;  ///< B, C and x below one another, [3 · hidden, hidden]
  Parameter weight,
      bias;  ///< conv.weight [hidden, 1, conv_L_cache], conv.bias [hidden] where the model has it
  Linear out_proj;
};

}  // namespace ingot
