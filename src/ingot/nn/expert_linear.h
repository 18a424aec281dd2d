#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ingot/nn/low_rank_adapter.h"
#include "ingot/nn/param_source.h"
#include "ingot/nn/visit.h"
#include "ingot/ops/grouped_linear.h"

namespace ingot {

/// One linear layer of every expert of a mixture: a stack [experts, out, in], dense or quantized one by one,
/// with any number of low-rank adapters on top, and biases [experts, out], "<name>_bias", where asked for.
struct ExpertLinear {
  ExpertLinear(const ParamSource& source, std::string_view name, const Shape& shape, const Init& init,
               bool has_bias = false);
  /// x: [pairs, in], sorted by expert as `routing` says; returns [pairs, out]. Of quantized experts the
  /// offsets are read on the host, which waits for the device.
  Tensor operator()(const Tensor& x, const ExpertRouting& routing) const;

  bool is_quantized() const { return !packed.empty(); }
  Shape shape() const;  ///< [experts, out, in]
  Device device() const;
  /// The dense stack with the adapters that are on.
  Tensor effective() const;
  /// What has an axis of experts: dense weights, biases and adapters, absent ones too.
  std::vector<Parameter*> stacks();
  /// Leaves `count` experts, and what adapters have for them, from number `first` on.
  void keep(std::int64_t first, std::int64_t count);

  std::vector<quant::PackedPtr> packed;  ///< empty: `dense` is there
  Parameter dense;                       ///< has its name, at least
  Parameter bias;                        ///< or undefined
  AdapterList adapters;
  /// Gradients of one call are rounded before they are added to those of the calls before, as gradients of
  /// micro-batches are that are added one by one.
  bool adds_by_call = false;

 private:
  Tensor of_call(const Tensor& stack) const;
  Tensor add_adapters(Tensor y, const Tensor& x, const Tensor& offsets) const;
  Tensor multiplied(const Tensor& x, const Tensor& offsets) const;
};

}  // namespace ingot
