#include "ingot/ops/checkpoint.h"

#include <utility>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/node.h"
#include "ingot/ops/random.h"

namespace ingot {
namespace {

struct CheckpointNode final : Node {
  static constexpr const char* kName = "checkpoint";
  std::function<Tensor(const Tensor&)> function;
  SavedTensor input;
  RandomState random;
  CheckpointNode(std::function<Tensor(const Tensor&)> function_, const Tensor& input_,
                 const RandomState& random_)
      : function(std::move(function_)), input(input_), random(random_) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&input}; }

  void backward(BackwardContext& ctx) override {
    Tensor leaf = input.get().detach();
    leaf.set_requires_grad(true);
    const GradMode record_again(true);
    const RandomScope replay(random);
    const Tensor output = function(leaf);
    ingot::backward(output, {.grad = ctx.grad()});
    Tensor gradient = leaf.grad();
    leaf.set_grad({});
    if (gradient.defined()) ctx.pass(0, std::move(gradient));
  }
};

}  // namespace

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& input) {
  if (!needs_grad({&input})) return function(input);
  const RandomState random = random_state();
  Tensor output;
  {
    const NoGrad no_grad;
    output = function(input);
  }
  return record<CheckpointNode>(output, {&input}, function, input, random);
}

}  // namespace ingot
