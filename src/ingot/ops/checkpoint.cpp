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
      // One result may depend on what trains, and another not: that of a frozen router.
      if (!grad.defined() || !outputs[i].requires_grad()) continue;
      roots.push_back(outputs[i]);
      grads.push_back(grad);
    }
    if (!roots.empty()) ingot::backward(roots, grads);
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

using RowsFunction = std::function<Tensor(std::span<const Tensor>)>;

Tensor rows_of(const Tensor& x) { return reshape(x.detach(), {-1, x.dim(-1)}); }

std::vector<Tensor> all_rows_of(std::span<const Tensor> tensors) {
  std::vector<Tensor> matrices;
  for (const Tensor& tensor : tensors) matrices.push_back(rows_of(tensor));
  return matrices;
}

std::vector<Tensor> some_rows(std::span<const Tensor> matrices, std::int64_t begin, std::int64_t count) {
  std::vector<Tensor> rows;
  rows.reserve(matrices.size());
  for (const Tensor& matrix : matrices) rows.push_back(narrow(matrix, 0, begin, count));
  return rows;
}

struct CheckpointRowsNode final : Node {
  static constexpr const char* kName = "checkpoint_rows";
  RowsFunction function;
  std::vector<SavedTensor> inputs;  // as they came
  std::int64_t rows;
  RandomState random;
  Leaves leaves;
  CheckpointRowsNode(RowsFunction function_, std::span<const Tensor> inputs_, std::int64_t rows_,
                     const RandomState& random_, Leaves leaves_)
      : function(std::move(function_)), rows(rows_), random(random_), leaves(std::move(leaves_)) {
    for (const Tensor& input : inputs_) inputs.emplace_back(input);
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
    std::vector<Tensor> x;
    std::vector<GradSlot> slots;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      x.push_back(rows_of(inputs[i].get()));
      slots.push_back(ctx.needs(static_cast<int>(i)) ? ctx.slot(static_cast<int>(i)) : GradSlot{});
    }
    const std::vector<Tensor> dy{rows_of(ctx.grad())};
    const RandomScope replay(random);
    for (std::int64_t begin = 0; begin < x.front().dim(0); begin += rows) {
      const std::int64_t count = std::min(rows, x.front().dim(0) - begin);
      std::vector<Tensor> some = some_rows(x, begin, count);
      for (std::size_t i = 0; i < some.size(); ++i) some[i].set_requires_grad(static_cast<bool>(slots[i]));
      {
        const GradMode record_again(true);
        ingot::backward(function(some), {.grad = some_rows(dy, begin, count).front()});
      }
      for (std::size_t i = 0; i < some.size(); ++i)
        if (slots[i]) hand_over(ctx, some[i], slots[i], begin);
    }
  }

 private:
  static void hand_over(const BackwardContext& ctx, Tensor& leaf, const GradSlot& slot, std::int64_t begin) {
    View to = slot.view;
    const std::int64_t width = leaf.dim(1);
    to = contiguous_view(to.as<std::byte>() + static_cast<std::size_t>(begin * width) * byte_size(to.dtype),
                         leaf.shape(), to.dtype, to.device);
    Tensor gradient = leaf.grad();
    leaf.set_grad({});
    if (!gradient.defined()) gradient = Tensor::zeros(leaf.shape(), to.dtype, to.device);  // was not read
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

Tensor checkpoint_rows(const std::function<Tensor(const Tensor&)>& function, const Tensor& x,
                       std::int64_t rows) {
  const RowsFunction of_several = [function](std::span<const Tensor> in) { return function(in.front()); };
  return checkpoint_rows(of_several, std::span(&x, 1), rows);
}

Tensor checkpoint_rows(const RowsFunction& function, std::span<const Tensor> inputs, std::int64_t rows) {
  INGOT_CHECK(rows > 0, InvalidConfig("rows", "of checkpoint_rows must be positive"));
  std::vector<Tensor> x;
  std::vector<const Tensor*> from;
  x.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    INGOT_CHECK(input.rank() >= 1 && input.numel() > 0 &&
                    input.numel() / input.dim(-1) == inputs[0].numel() / inputs[0].dim(-1),
                DimensionMismatch("checkpoint_rows takes [..., in] with rows, as many in each input, got " +
                                  to_string(input.shape())));
    from.push_back(&x.emplace_back(contiguous(input)));
  }
  const RandomState random = random_state();
  const LeafCollector inside;
  Tensor y;
  {
    std::optional<RecordedLater> first_run;
    if (grad_enabled()) first_run.emplace();
    const std::vector<Tensor> matrices = all_rows_of(x);
    const std::int64_t count_of_all = matrices.front().dim(0);
    Tensor all;
    for (std::int64_t begin = 0; begin < count_of_all; begin += rows) {
      const std::int64_t count = std::min(rows, count_of_all - begin);
      const Tensor part = function(some_rows(matrices, begin, count));
      if (!all.defined()) all = Tensor::empty({count_of_all, part.dim(1)}, part.dtype(), part.device());
      copy_(narrow(all, 0, begin, count), part);
    }
    y = reshape(all, x.front().shape().with(x.front().rank() - 1, all.dim(1)));
  }
  if (grad_enabled() && (needs_grad(from) || !inside.leaves().empty()))
    record_with_leaves<CheckpointRowsNode>(std::span(&y, 1), x, function, x, rows, random, inside.leaves());
  return y;
}

}  // namespace ingot
