#include "ingot/ops/checkpoint.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/grad_mode.h"
#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/kernels/copy.h"
#include "ingot/ops/cast.h"
#include "ingot/ops/random.h"
#include "ingot/ops/view.h"

namespace ingot {
namespace {

using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
using Leaves = std::vector<std::shared_ptr<AutogradMeta>>;

struct CheckpointNode final : Node {
  static constexpr const char* kName = "checkpoint";
  Function function;
  std::vector<SavedTensor> inputs;              // without the first where that is
  std::shared_ptr<CheckpointStore::Held> held;  // until the backward pass
  bool is_stored;
  RandomState random;
  Leaves leaves;
  CheckpointNode(Function function_, std::span<const Tensor> inputs_,
                 std::shared_ptr<CheckpointStore::Held> held_, const RandomState& random_, Leaves leaves_)
      : function(std::move(function_)),
        held(std::move(held_)),
        is_stored(held != nullptr),
        random(random_),
        leaves(std::move(leaves_)) {
    for (const Tensor& input : inputs_.subspan(is_stored ? 1 : 0)) inputs.emplace_back(input);
  }
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override {
    std::vector<SavedTensor*> all;
    all.reserve(inputs.size());
    for (SavedTensor& input : inputs) all.push_back(&input);
    return all;
  }
  std::span<const std::shared_ptr<AutogradMeta>> leaves_inside() const override { return leaves; }

  void backward(BackwardContext& ctx) override {
    INGOT_CHECK(!is_stored || held != nullptr,
                Error("checkpoint: its input was released by an earlier backward pass; use retain_graph"));
    const std::shared_ptr<CheckpointStore::Held> here = held;  // to the end of this pass
    if (!ctx.retains_graph()) held.reset();
    std::vector<Tensor> again;
    again.reserve(inputs.size() + 1);
    if (is_stored) again.push_back(here->get().detach());
    for (const SavedTensor& input : inputs) again.push_back(input.get().detach());
    for (std::size_t i = 0; i < again.size(); ++i) {
      const int input = static_cast<int>(i);
      again[i].set_requires_grad(ctx.needs(input));
      if (Tensor before = ctx.take(input); before.defined()) again[i].set_grad(std::move(before));
    }
    const GradMode record_again(true);
    const RandomScope replay(random);
    const std::vector<Tensor> outputs = function(again);
    std::vector<Tensor> roots, grads;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensor& grad = ctx.grad(static_cast<int>(i));
      if (!grad.defined()) continue;
      roots.push_back(outputs[i]);
      grads.push_back(grad);
    }
    ingot::backward(roots, grads);
    for (std::size_t i = 0; i < again.size(); ++i) {
      if (!again[i].requires_grad()) continue;
      Tensor gradient = again[i].grad();
      again[i].set_grad({});
      if (gradient.defined()) ctx.pass(static_cast<int>(i), std::move(gradient));
    }
  }
};

// As record_all(), also where only leaves inside need a gradient.
template <class NodeType, class... Args>
void record_with_leaves(std::span<Tensor> outputs, std::span<const Tensor> from, Args&&... args) {
  auto node = std::make_shared<NodeType>(std::forward<Args>(args)...);
  std::vector<const Tensor*> inputs;
  inputs.reserve(from.size());
  for (const Tensor& input : from) inputs.push_back(&input);
  if (ops_watched()) watch_op(node->name(), inputs, outputs);
  node->set_inputs(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) connect(outputs[i], node, static_cast<std::uint32_t>(i));
}

Tensor some_rows(const Tensor& matrix, std::int64_t begin, std::int64_t count) {
  return narrow(matrix, 0, begin, count);
}

struct CheckpointRowsNode final : Node {
  static constexpr const char* kName = "checkpoint_rows";
  std::function<Tensor(const Tensor&)> function;
  SavedTensor input;  // as it came
  std::int64_t rows;
  RandomState random;
  Leaves leaves;
  CheckpointRowsNode(std::function<Tensor(const Tensor&)> function_, const Tensor& input_, std::int64_t rows_,
                     const RandomState& random_, Leaves leaves_)
      : function(std::move(function_)),
        input(input_),
        rows(rows_),
        random(random_),
        leaves(std::move(leaves_)) {}
  std::string_view name() const override { return kName; }
  std::vector<SavedTensor*> saved() override { return {&input}; }
  std::span<const std::shared_ptr<AutogradMeta>> leaves_inside() const override { return leaves; }

  void backward(BackwardContext& ctx) override {
    const auto matrix = [](const Tensor& t) { return reshape(t.detach(), {-1, t.dim(-1)}); };
    const Tensor x = matrix(input.get()), dy = matrix(ctx.grad());
    const GradSlot dx = ctx.slot(0);
    const RandomScope replay(random);
    for (std::int64_t begin = 0; begin < x.dim(0); begin += rows) {
      const std::int64_t count = std::min(rows, x.dim(0) - begin);
      Tensor leaf = some_rows(x, begin, count);
      leaf.set_requires_grad(static_cast<bool>(dx));
      {
        const GradMode record_again(true);
        ingot::backward(function(leaf), {.grad = some_rows(dy, begin, count)});
      }
      if (dx) hand_over(ctx, leaf, dx, begin);
    }
  }

 private:
  static void hand_over(const BackwardContext& ctx, Tensor& leaf, const GradSlot& slot, std::int64_t begin) {
    View to = slot.view;
    const std::int64_t width = leaf.dim(1);
    to = contiguous_view(to.as<std::byte>() + static_cast<std::size_t>(begin * width) * byte_size(to.dtype),
                         leaf.shape(), to.dtype, to.device);
    const Tensor gradient = leaf.grad();
    leaf.set_grad({});
    kernels::launch(kernels::copy, ctx.stream(),
                    {.x = gradient.view(), .y = to, .accumulate = slot.accumulate});
  }
};

}  // namespace

std::vector<Tensor> checkpoint(const Function& function, std::span<const Tensor> inputs,
                               CheckpointStore* store) {
  if (!grad_enabled()) return function(inputs);
  const RandomState random = random_state();
  // Before the work, beside which it is copied.
  std::shared_ptr<CheckpointStore::Held> held =
      store != nullptr ? store->put(contiguous(inputs.front().detach())) : nullptr;
  const LeafCollector inside;
  std::vector<Tensor> outputs;
  {
    const RecordedLater first_run;
    outputs = function(inputs);
  }
  const bool needed = std::ranges::any_of(inputs, [](const Tensor& input) { return needs_grad({&input}); });
  if (needed || !inside.leaves().empty())
    record_with_leaves<CheckpointNode>(outputs, inputs, function, inputs, std::move(held), random,
                                       inside.leaves());
  return outputs;
}

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& input) {
  const Function several = [function](std::span<const Tensor> in) {
    return std::vector<Tensor>{function(in.front())};
  };
  return checkpoint(several, std::span(&input, 1)).front();
}

Tensor checkpoint_rows(const std::function<Tensor(const Tensor&)>& function, const Tensor& input,
                       std::int64_t rows) {
  INGOT_CHECK(rows > 0, InvalidConfig("rows", "of checkpoint_rows must be positive"));
  INGOT_CHECK(
      input.rank() >= 1 && input.numel() > 0,
      DimensionMismatch("checkpoint_rows takes [..., in] with rows, got " + to_string(input.shape())));
  const Tensor x = contiguous(input);
  const RandomState random = random_state();
  const LeafCollector inside;
  Tensor y;
  {
    std::optional<RecordedLater> first_run;
    if (grad_enabled()) first_run.emplace();
    const Tensor matrix = reshape(x.detach(), {-1, x.dim(-1)});
    Tensor all;
    for (std::int64_t begin = 0; begin < matrix.dim(0); begin += rows) {
      const std::int64_t count = std::min(rows, matrix.dim(0) - begin);
      const Tensor part = function(some_rows(matrix, begin, count));
      if (!all.defined()) all = Tensor::empty({matrix.dim(0), part.dim(1)}, part.dtype(), part.device());
      copy_(some_rows(all, begin, count), part);
    }
    y = reshape(all, x.shape().with(x.rank() - 1, all.dim(1)));
  }
  if (grad_enabled() && (needs_grad({&x}) || !inside.leaves().empty()))
    record_with_leaves<CheckpointRowsNode>(std::span(&y, 1), std::span(&x, 1), function, x, rows, random,
                                           inside.leaves());
  return y;
}

}  // namespace ingot
