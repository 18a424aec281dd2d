#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ingot/autograd/node.h"
#include "ingot/core/tensor.h"

namespace ingot {

/// on_gradient_ready() of a hook that puts the gradient's memory elsewhere (offload). `wanted` brings it
/// back, before a pass adds to a gradient that is not on the leaf's device.
void on_gradient_ready(const Tensor& leaf, std::function<void()> ready, std::function<void()> wanted);
/// Runs `wanted`, if there is one.
void bring_gradient(const AutogradMeta& leaf);

/// Runs the hooks of on_gradient_ready() in one backward pass: each as soon as the last node that the leaf's
/// gradient comes from has run. Which that is, a walk over the graph counts before the pass; without hooks
/// there is no walk.
class ReadyHooks {
 public:
  /// A pass inside a node of another one (checkpoint) leaves all to the outer pass, which knows the leaves
  /// inside.
  ReadyHooks();
  ~ReadyHooks();
  ReadyHooks(const ReadyHooks&) = delete;
  ReadyHooks& operator=(const ReadyHooks&) = delete;

  /// A root of the pass, before it runs.
  void add_root(AutogradMeta* leaf);
  void add_root(Node* node);
  /// After a node's backward().
  void ran(Node& node);
  /// Leaves that are left: roots, and those whose last node got no gradient itself.
  void finish();

 private:
  std::int64_t& found(AutogradMeta* leaf);
  void fire(AutogradMeta* leaf);

  bool counts_;
  std::unordered_set<const Node*> seen_;
  std::unordered_map<AutogradMeta*, std::int64_t> waiting_;  // edges and nodes that have not run
  std::vector<AutogradMeta*> leaves_;                        // in the order of the walk
  std::unordered_set<AutogradMeta*> fired_;
};

}  // namespace ingot
