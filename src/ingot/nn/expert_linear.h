#pragma once

#include <string_view>
#include <vector>

#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"

namespace ingot {

/// One matrix of every expert of a mixture: a stack [experts, out, in], dense or quantized one by one.
struct ExpertLinear {
  ExpertLinear(const ParamSource& source, std::string_view name, const Shape& shape, const Init& init);
  /// x: [pairs, in], sorted by expert, whose rows begin at `offsets` i64 [experts + 1]; returns [pairs, out].
  /// Of quantized experts the offsets are read on the host, which waits for the device.
  Tensor operator()(const Tensor& x, const Tensor& offsets) const;
  /// Sees the stack as `name`.
  void visit(ParamVisitor& v, std::string_view name);

  bool is_quantized() const { return !packed.empty(); }

  std::vector<quant::PackedPtr> packed;  ///< empty: `dense` is there
  Parameter dense;
};

}  // namespace ingot
