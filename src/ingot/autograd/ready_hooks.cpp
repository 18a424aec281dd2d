#include "ingot/autograd/ready_hooks.h"

#include <atomic>
#include <utility>

#include "ingot/autograd/engine.h"
#include "ingot/base/error.h"
#include "ingot/base/parallel.h"

namespace ingot {
namespace {

std::atomic<bool> hooks_ever{false};  // until the first is set no pass looks for them
thread_local int passes = 0;          // that run on this thread, one inside the other

void for_each_hooked_leaf(Node& node, FunctionRef<void(AutogradMeta*)> f) {
  const auto visit = [&](const std::shared_ptr<AutogradMeta>& leaf) {
    if (leaf != nullptr && leaf->gradient_ready) f(leaf.get());
  };
  for (const Edge& edge : node.inputs()) visit(edge.leaf);
  for (const std::shared_ptr<AutogradMeta>& leaf : node.leaves_inside()) visit(leaf);
}

// What a leaf's hook is where it has two sides.
struct MovingHook {
  std::function<void()> ready, wanted;
  void operator()() const { ready(); }
};

}  // namespace

void on_gradient_ready(const Tensor& leaf, std::function<void()> ready, std::function<void()> wanted) {
  on_gradient_ready(leaf, MovingHook{std::move(ready), std::move(wanted)});
}

void bring_gradient(const AutogradMeta& leaf) {
  if (const auto* hook = leaf.gradient_ready.target<MovingHook>(); hook != nullptr) hook->wanted();
}

void on_gradient_ready(const Tensor& leaf, std::function<void()> hook) {
  INGOT_CHECK(leaf.requires_grad() && leaf.is_leaf(),
              Error("on_gradient_ready: only a leaf that requires a gradient has one that can be ready"));
  if (hook) hooks_ever.store(true, std::memory_order_relaxed);
  leaf.autograd_meta()->gradient_ready = std::move(hook);
}

ReadyHooks::ReadyHooks() : counts_(passes++ == 0 && hooks_ever.load(std::memory_order_relaxed)) {}
ReadyHooks::~ReadyHooks() { --passes; }

void ReadyHooks::add_root(AutogradMeta* leaf) {
  if (counts_ && leaf->gradient_ready) found(leaf);
}

void ReadyHooks::add_root(Node* root) {
  if (!counts_) return;
  std::vector<Node*> open{root};
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (!seen_.insert(node).second) continue;
    for_each_hooked_leaf(*node, [this](AutogradMeta* leaf) { ++found(leaf); });
    for (const Edge& edge : node->inputs()) {
      if (edge.node != nullptr) open.push_back(edge.node.get());
    }
  }
}

void ReadyHooks::ran(Node& node) {
  if (!counts_) return;
  for_each_hooked_leaf(node, [this](AutogradMeta* leaf) {
    if (--found(leaf) == 0) fire(leaf);
  });
}

void ReadyHooks::finish() {
  for (AutogradMeta* leaf : leaves_) fire(leaf);
}

std::int64_t& ReadyHooks::found(AutogradMeta* leaf) {
  const auto [at, fresh] = waiting_.try_emplace(leaf, 0);
  if (fresh) leaves_.push_back(leaf);
  return at->second;
}

void ReadyHooks::fire(AutogradMeta* leaf) {
  if (fired_.insert(leaf).second && leaf->grad.written) leaf->gradient_ready();
}

}  // namespace ingot
