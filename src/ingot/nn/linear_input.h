#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ingot/core/tensor.h"
#include "ingot/quant/linear.h"

namespace ingot {

/// Makes the input of linear layers when the first of them reads it. A layer that quantizes its input pulls
/// some rows at a time, and quantizes them while they are in cache; any other takes all of them at once.
/// Either happens once.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual Shape shape() const = 0;
  /// The whole input, recorded for a backward pass.
  virtual Tensor all() = 0;
  /// Called once before rows(), on the caller's thread.
  virtual void prepare() {}
  /// Rows [begin, end) as contiguous f32 [end − begin, in], without gradients; several threads call it.
  virtual Tensor rows(std::int64_t begin, std::int64_t end) = 0;
};

/// The input [..., in] of linear layers: a tensor, or what makes one. Layers with one input take the same
/// LinearInput, so that it is made, and quantized, once for all of them. Not for use by several threads at
/// once.
class LinearInput {
 public:
  LinearInput(const Tensor& x);  // NOLINT(google-explicit-constructor): a tensor is an input as it is
  explicit LinearInput(std::unique_ptr<RowSource> source);
  /// f(xs), where xs have one shape [..., in] and f treats their rows one by one: an activation function.
  LinearInput(std::vector<Tensor> xs, std::function<Tensor(std::span<const Tensor>)> f);

  const Shape& shape() const { return shape_; }
  /// The number of rows: all axes but the last.
  std::int64_t rows() const { return shape_.drop_last().numel(); }
  /// The whole input as a tensor, with its gradients.
  const Tensor& tensor() const;
  /// For quantized weights that read it so. Where it is made by rows, all layers must ask for one rounding
  /// (ProjectionGroup sees to that).
  const quant::Activations& quantized(quant::Rounding rounding) const;

 private:
  Shape shape_;
  mutable std::unique_ptr<RowSource> source_;  // null: the input is made
  mutable std::unique_ptr<quant::Activations> activations_;
  mutable Tensor x_;
};

}  // namespace ingot
