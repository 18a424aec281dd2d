#include "ingot/autograd/engine.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "ingot/autograd/node.h"
#include "ingot/autograd/ready_hooks.h"
#include "ingot/base/error.h"
#include "ingot/base/scope.h"
#include "ingot/core/backend.h"
#include "ingot/core/contiguous_rows.h"
#include "ingot/kernels/check.h"
#include "ingot/kernels/copy.h"
#include "ingot/kernels/elementwise.h"

namespace ingot {
namespace {

bool older(const Node* a, const Node* b) { return a->sequence() < b->sequence(); }

void copy_into(const Tensor& from, const View& to, bool accumulate) {
  kernels::launch(kernels::copy, current_stream(to.device),
                  {.x = from.view(), .y = to, .accumulate = accumulate});
}

Tensor copied(const Tensor& from, DType dtype) {
  Tensor to = Tensor::empty(from.shape(), dtype, from.device());
  kernels::launch(kernels::copy, current_stream(to.device()), {.x = from.view(), .y = to.view()});
  return to;
}

// What a hook has sent away comes back, to be added to.
GradBuffer& buffer_of(AutogradMeta& leaf, Device device) {
  GradBuffer& grad = leaf.grad;
  if (grad.written && grad.memory.device() != device) bring_gradient(leaf);
  return grad;
}

void add_to_leaf(const Tensor& grad, const Tensor& leaf) {
  GradBuffer& to = buffer_of(*leaf.autograd_meta(), leaf.device());
  if (!to.memory.defined()) {
    to.memory = copied(grad, leaf.dtype());
  } else {
    copy_into(grad, to.memory.view(), to.written);
  }
  to.written = true;
}

std::vector<Tensor> memory_of(std::span<GradBuffer* const> buffers) {
  std::vector<Tensor> memory;
  memory.reserve(buffers.size());
  for (const GradBuffer* buffer : buffers) memory.push_back(buffer->memory);
  return memory;
}

GradSlot leaf_slot(const Edge& edge) {
  GradBuffer& grad = buffer_of(*edge.leaf, edge.device);
  if (!grad.memory.defined()) {
    const MemoryTagScope tag(MemoryTag::gradient);
    grad.memory = Tensor::empty(edge.shape, edge.dtype, edge.device);
  }
  return {grad.memory.view(), std::exchange(grad.written, true)};
}

}  // namespace

const Tensor& BackwardContext::grad(int i) const {
  static const Tensor none;
  return static_cast<std::size_t>(i) < node_.grads_.size() ? node_.grads_[static_cast<std::size_t>(i)] : none;
}

bool BackwardContext::needs(int input) const {
  return node_.inputs_[static_cast<std::size_t>(input)].needed();
}

bool BackwardContext::has_gradient(int input) const {
  const Edge& edge = node_.inputs_[static_cast<std::size_t>(input)];
  if (edge.leaf != nullptr) return edge.leaf->grad.written;
  return edge.node != nullptr && edge.output_index < edge.node->grads_.size() &&
         edge.node->grads_[edge.output_index].defined();
}

Stream BackwardContext::stream() const { return current_stream(grad().device()); }

// The handle that gradients of this edge, to a node, gather in; undefined while none has arrived.
Tensor& BackwardContext::pending(const Edge& edge) {
  Node& target = *edge.node;
  if (target.grads_.size() <= edge.output_index) target.grads_.resize(edge.output_index + 1);
  if (!target.queued_) {
    target.queued_ = true;
    ready_.push_back(&target);
    std::ranges::push_heap(ready_, older);
  }
  return target.grads_[edge.output_index];
}

GradSlot BackwardContext::slot(int input) {
  const Edge& edge = node_.inputs_[static_cast<std::size_t>(input)];
  if (!edge.needed()) return {};
  if (edge.leaf != nullptr) return leaf_slot(edge);
  Tensor& gathered = pending(edge);
  if (gathered.defined()) {
    // Somebody else may hold the same memory (it was passed on to two inputs): then this one needs its own.
    if (gathered.storage().use_count() > 1) gathered = copied(gathered, edge.dtype);
    return {gathered.view(), true};
  }
  const MemoryTagScope tag(MemoryTag::activation);
  gathered = Tensor::empty(edge.shape, edge.dtype, edge.device);
  return {gathered.view(), false};
}

std::vector<GradBuffer*> BackwardContext::leaf_buffers(std::span<const int> inputs) const {
  std::vector<GradBuffer*> buffers;
  buffers.reserve(inputs.size());
  for (const int input : inputs) {
    const Edge& edge = node_.inputs_[static_cast<std::size_t>(input)];
    buffers.push_back(&buffer_of(*edge.leaf, edge.device));
  }
  return buffers;
}

bool BackwardContext::joins(std::span<const int> inputs) const {
  const auto edge = [this](int input) -> const Edge& {
    return node_.inputs_[static_cast<std::size_t>(input)];
  };
  if (std::ranges::any_of(inputs, [&](int input) { return edge(input).leaf == nullptr; })) return false;
  const std::vector<GradBuffer*> buffers = leaf_buffers(inputs);
  const bool written = buffers.front()->written;
  if (std::ranges::any_of(buffers, [&](const GradBuffer* b) { return b->written != written; })) return false;
  return std::ranges::none_of(buffers, [](const GradBuffer* b) { return b->memory.defined(); }) ||
         contiguous_rows(memory_of(buffers)).defined();
}

GradSlot BackwardContext::contiguous_slot(std::span<const int> inputs) {
  const std::vector<GradBuffer*> buffers = leaf_buffers(inputs);
  const bool written = buffers.front()->written;
  for (GradBuffer* buffer : buffers) buffer->written = true;
  if (const Tensor whole = contiguous_rows(memory_of(buffers)); whole.defined())
    return {whole.view(), written};
  std::vector<std::int64_t> rows;
  rows.reserve(inputs.size());
  for (const int input : inputs) rows.push_back(node_.inputs_[static_cast<std::size_t>(input)].shape[0]);
  const Edge& first = node_.inputs_[static_cast<std::size_t>(inputs.front())];
  const MemoryTagScope tag(MemoryTag::gradient);
  const Tensor whole =
      Tensor::empty(first.shape.with(0, std::accumulate(rows.begin(), rows.end(), std::int64_t{0})),
                    first.dtype, first.device);
  const std::vector<Tensor> pieces = split_rows(whole, rows);
  for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i]->memory = pieces[i];
  return {whole.view(), false};
}

void BackwardContext::pass(int input, Tensor grad) {
  const Edge& edge = node_.inputs_[static_cast<std::size_t>(input)];
  if (!edge.needed()) return;
  INGOT_CHECK(grad.shape() == edge.shape, ShapeMismatch(std::string(node_.name()) + " (backward)",
                                                        edge.shape.to_vector(), grad.shape().to_vector()));
  Tensor& gathered = edge.leaf != nullptr ? buffer_of(*edge.leaf, edge.device).memory : pending(edge);
  if (gathered.defined()) {
    const GradSlot to = slot(input);
    copy_into(grad, to.view, to.accumulate);
    return;
  }
  if (edge.leaf != nullptr) edge.leaf->grad.written = true;
  // A leaf's gradient outlives the pass and is changed in place by later ones, so it cannot be shared memory.
  const bool own = edge.leaf == nullptr || grad.storage().use_count() == 1;
  const bool as_is =
      own && grad.is_contiguous() && grad.dtype() == edge.dtype && grad.nbytes() == grad.storage()->bytes();
  gathered = as_is ? grad.detach() : copied(grad, edge.dtype);
}

Tensor BackwardContext::take(int input) {
  const Edge& edge = node_.inputs_[static_cast<std::size_t>(input)];
  if (!edge.needed() || edge.leaf != nullptr || !has_gradient(input)) return {};
  Tensor gathered = std::exchange(pending(edge), {});
  return gathered.storage().use_count() > 1 ? copied(gathered, edge.dtype) : gathered;
}

class Engine {
 public:
  explicit Engine(bool retain_graph) : retain_graph_(retain_graph) {}
  ~Engine() {  // after an exception, nothing of this pass may leak into the next
    for (Node* node : ready_) reset(*node);
  }

  void add_root(const Tensor& root, const Tensor& grad) {
    const AutogradMeta* meta = root.autograd_meta().get();
    INGOT_CHECK(meta != nullptr && meta->requires_grad,
                Error("backward: the root does not depend on anything that requires a gradient; make it "
                      "outside of NoGrad, from a leaf that requires one"));
    INGOT_CHECK(
        grad.shape() == root.shape(),
        ShapeMismatch("backward (gradient of the root)", root.shape().to_vector(), grad.shape().to_vector()));
    if (meta->grad_fn == nullptr) {
      add_to_leaf(grad, root);
      hooks_.add_root(root.autograd_meta().get());
      return;
    }
    Node& node = static_cast<Node&>(*meta->grad_fn);
    hooks_.add_root(&node);
    if (node.grads_.size() <= meta->output_index) node.grads_.resize(meta->output_index + 1);
    Tensor& gathered = node.grads_[meta->output_index];
    if (gathered.defined()) {
      gathered = copied(gathered, root.dtype());
      copy_into(grad, gathered.view(), true);
    } else {
      gathered =
          grad.is_contiguous() && grad.dtype() == root.dtype() ? grad.detach() : copied(grad, root.dtype());
    }
    if (!node.queued_) {
      node.queued_ = true;
      ready_.push_back(&node);
      std::ranges::push_heap(ready_, older);
    }
  }

  void run() {
    const Scope scope(ScopeKind::work, "backward");
    const NoGrad no_grad;
    while (!ready_.empty()) {
      std::ranges::pop_heap(ready_, older);
      Node& node = *ready_.back();
      ready_.pop_back();
      // Who saved this node's result has run, or has a share of it.
      if (!retain_graph_) node.recomputed_.clear();
      try {
        run(node);
      } catch (...) {
        reset(node);
        throw;
      }
      reset(node);
      if (!retain_graph_) {
        for (SavedTensor* saved : node.saved()) saved->release();
      }
      hooks_.ran(node);
    }
    hooks_.finish();
  }

 private:
  void run(Node& node) {
    const Scope module(ScopeKind::module, node.module());
    const std::string label = scopes_watched() ? std::string(node.name()) + " backward" : std::string();
    const Scope op(ScopeKind::op, label);
    BackwardContext ctx(node, ready_, retain_graph_);
    node.backward(ctx);
    if (ops_watched()) watch_gradients(node);
  }

  static void reset(Node& node) {
    node.grads_.clear();
    node.queued_ = false;
  }

  // What a node kept of its op's operands and result; not what has been written over by now.
  static std::vector<Tensor> kept_by(Node& node) {
    std::vector<Tensor> kept;
    for (const SavedTensor* saved : node.saved()) {
      if (!saved->defined()) continue;
      try {
        kept.push_back(saved->get());
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): written over
      }
    }
    return kept;
  }

  static void watch_gradients(Node& node) {
    const std::vector<Tensor> kept = kept_by(node);
    std::vector<const Tensor*> read;
    for (const Tensor& grad : node.grads_) read.push_back(&grad);
    for (const Tensor& tensor : kept) read.push_back(&tensor);
    std::vector<Tensor> made;
    for (const Edge& edge : node.inputs()) {
      if (!edge.needed()) continue;
      if (edge.leaf != nullptr) {
        made.push_back(edge.leaf->grad.gradient());
      } else if (edge.output_index < edge.node->grads_.size()) {
        made.push_back(edge.node->grads_[edge.output_index]);
      }
    }
    watch_op(std::string(node.name()) + " (backward)", read, made);
  }

  std::vector<Node*> ready_;
  ReadyHooks hooks_;
  bool retain_graph_;
};

void backward(std::span<const Tensor> roots, std::span<const Tensor> grads, bool retain_graph) {
  INGOT_CHECK(roots.size() == grads.size(),
              Error("backward: roots and gradients differ in number; give one gradient for each root"));
  Engine engine(retain_graph);
  for (std::size_t i = 0; i < roots.size(); ++i) engine.add_root(roots[i], grads[i]);
  engine.run();
}

void backward(const Tensor& root, const BackwardOptions& options) {
  Tensor grad = options.grad;
  if (!grad.defined()) {
    INGOT_CHECK(root.numel() == 1,
                DimensionMismatch("backward: the root has shape " + to_string(root.shape()) +
                                  "; only a root of one element needs no gradient (reduce it, or pass one)"));
    grad = Tensor::empty(root.shape(), root.dtype(), root.device());
    kernels::launch(kernels::fill, current_stream(root.device()), {.y = grad.view(), .value = 1});
  }
  backward(std::span(&root, 1), std::span(&grad, 1), options.retain_graph);
}

}  // namespace ingot
