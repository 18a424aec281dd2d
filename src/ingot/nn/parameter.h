#pragma once

#include <string>
#include <utility>

#include "ingot/core/tensor.h"

namespace ingot {

/// A weight of a module: a leaf tensor with a name. It keeps its address for life, so optimizers, LoRA,
/// sharding and offload may hold a pointer to it and replace `value`. A default-constructed parameter is
/// absent (a Linear without bias): visitors skip it and ops take its undefined value for "none".
struct Parameter {
  Parameter() = default;
  Parameter(std::string name_, Tensor value_, bool trainable, bool decay_)
      : value(std::move(value_)), name(std::move(name_)), decay(decay_) {
    set_trainable(trainable);
  }
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  explicit operator bool() const { return value.defined(); }
  Shape shape() const { return value.shape(); }
  /// Undefined before the first backward pass and after zero_grad().
  Tensor grad() const { return value.grad(); }
  bool trainable() const { return value.requires_grad(); }
  /// Only for floating dtypes. A parameter that stops being trainable drops its gradient.
  void set_trainable(bool trainable) {
    if (!value.defined() || trainable == value.requires_grad()) return;
    value.set_requires_grad(trainable);
    if (!trainable) value.set_grad({});
  }
  /// Drops the gradient: the next backward pass writes a new one.
  void zero_grad() const {
    if (value.autograd_meta() != nullptr) value.set_grad({});
  }
  /// Replaces the values (another device or dtype, a merged LoRA); the gradient is dropped.
  void replace(const Tensor& tensor) {
    const bool was_trainable = trainable();
    value = tensor.detach();
    set_trainable(was_trainable);
  }

  Tensor value;
  std::string name;        ///< full: "model.layers.0.q_proj.weight"
  bool decay = true;       ///< whether weight decay applies (by default to what has two axes or more)
  bool embedding = false;  ///< the table of an Embedding; optimizers keep its moments in f32
};

}  // namespace ingot
