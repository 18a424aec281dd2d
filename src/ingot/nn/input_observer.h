#pragma once

#include <functional>
#include <string_view>

#include "ingot/core/tensor.h"

namespace ingot {

class LinearInput;

/// While it lives, f sees the input of every linear layer that is applied on this thread, as calibration
/// needs it. For dense models: a layer that quantizes its input never has all of it as a tensor. Fused
/// feed-forward networks go layer by layer meanwhile.
class InputObserver {
 public:
  /// name: the weight's, with its module's path. x: [..., in]. offsets: of a mixture's layer i64 [experts +
  /// 1], rows offsets[e] to offsets[e + 1] of x are expert e's; undefined of any other.
  using See = std::function<void(std::string_view name, const Tensor& x, const Tensor& offsets)>;

  explicit InputObserver(See see);
  ~InputObserver();
  InputObserver(const InputObserver&) = delete;
  InputObserver& operator=(const InputObserver&) = delete;

  static bool is_on();
  static void tell(std::string_view name, const LinearInput& x);
  static void tell(std::string_view name, const Tensor& x, const Tensor& offsets);

 private:
  See see_;
  InputObserver* outer_;
};

}  // namespace ingot
