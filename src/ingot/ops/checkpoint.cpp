#include "ingot/ops/checkpoint.h"

#include <utility>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/node.h"
#include "ingot/ops/random.h"

namespace ingot {
namespace {

using Function = std::function<std::vector<Tensor>(const Tensor&)>;

struct CheckpointNode final : Node {
  static constexpr const char* kName = "checkpoint";
  Function function;
  SavedTensor input;
  RandomState random;
  std::vector<std::shared_ptr<AutogradMeta>> leaves;
  CheckpointNode(Function function_, const Tensor& input_, const RandomState& random_,
                 std::vector<std::shared_ptr<AutogradMeta>> leaves_)
      : function(std::move(function_)), input(input_), random(random_), leaves(std::move(leaves_)) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&input}; }
  std::span<const std::shared_ptr<AutogradMeta>> leaves_inside() const override { return leaves; }

  void backward(BackwardContext& ctx) override {
    Tensor leaf = input.get().detach();
    leaf.set_requires_grad(true);
    const GradMode record_again(true);
    const RandomScope replay(random);
    const std::vector<Tensor> outputs = function(leaf);
    std::vector<Tensor> roots, grads;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& grad = ctx.grad(static_cast<int>(i));
      if (!grad.defined()) continue;
      roots.push_back(outputs[i]);
      grads.push_back(grad);
    }
    ingot::backward(roots, grads);
    Tensor gradient = leaf.grad();
    leaf.set_grad({});
    if (gradient.defined()) ctx.pass(0, std::move(gradient));
  }
};

}  // namespace

std::vector<Tensor> checkpoint(const Function& function, const Tensor& input) {
  if (!needs_grad({&input})) return function(input);
  const RandomState random = random_state();
  const LeafCollector inside;
  std::vector<Tensor> outputs;
  {
    const RecordedLater first_run;
    outputs = function(input);
  }
  const Tensor* const inputs[] = {&input};
  record_all<CheckpointNode>(outputs, inputs, function, input, random, inside.leaves());
  return outputs;
}

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& input) {
  const Function several = [function](const Tensor& in) { return std::vector<Tensor>{function(in)}; };
  return checkpoint(several, input).front();
}

}  // namespace ingot
