#pragma once

#include <functional>
#include <span>

#include "ingot/core/tensor.h"

namespace ingot {

struct BackwardOptions {
  /// Gradient of the root; undefined means 1, for a root of one element.
  Tensor grad;
  /// Keep what the graph saved, so that it can be used once more.
  bool retain_graph = false;
};

/// Adds the gradient of `root` to .grad() of every leaf that it was computed from. Gradients are written in a
/// fixed order, so equal graphs give equal bits. There is no double backward: what backward does is not
/// recorded.
void backward(const Tensor& root, const BackwardOptions& options = {});

/// Several roots at once; grads[i] belongs to roots[i].
void backward(std::span<const Tensor> roots, std::span<const Tensor> grads, bool retain_graph = false);

/// Runs `hook` in each backward pass that gives `leaf` a gradient, as soon as that is final: while the pass
/// goes on with what is left, the gradient can be sent away (all-reduce, offload). The order of hooks is the
/// same for equal graphs. What a hook puts into the current stream comes behind the gradient. Leaves inside
/// checkpoint() are ready when its node has run. A leaf that has a gradient already and gets none in the pass
/// counts, too. A hook that puts the gradient's memory elsewhere has one beside it that brings it back
/// (ready_hooks.h). An empty hook removes it; there is one a leaf.
void on_gradient_ready(const Tensor& leaf, std::function<void()> hook);

}  // namespace ingot
