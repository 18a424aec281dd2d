#pragma once

#include <utility>

#include "ingot/nn/param_source.h"

namespace ingot {

/// Gives a low-rank adapter matrices that are there already, as its lora_A and lora_B.
class GivenMatrices final : public ParamProvider {
 public:
  GivenMatrices(Tensor a, Tensor b) : a_(std::move(a)), b_(std::move(b)) {}
  Tensor provide(const ParamRequest& request) override { return request.name.ends_with("lora_A") ? a_ : b_; }

 private:
  Tensor a_, b_;
};

}  // namespace ingot
