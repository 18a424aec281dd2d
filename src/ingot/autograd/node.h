#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingot/autograd/grad_mode.h"
#include "ingot/core/stream.h"
#include "ingot/core/tensor.h"

namespace ingot {

class Node;
class Recomputed;

/// Where the gradient of a node's input goes: to the node that made the input, to a leaf, or nowhere.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<AutogradMeta> leaf;
  std::uint32_t output_index = 0;  // of `node`
  Shape shape;
  DType dtype = DType::f32;
  Device device{};

  bool needed() const { return node != nullptr || leaf != nullptr; }
};

/// A tensor kept for the backward pass: without autograd data (no cycle can form), and with the storage's
/// version, so that a later in-place change is an error and not a wrong gradient. Of a recomputable() result
/// the way to make it again is kept instead; of a leaf of save_by_identity() the leaf, not its memory.
class SavedTensor {
 public:
  SavedTensor() = default;
  explicit SavedTensor(const Tensor& tensor);
  /// Throws Error when the memory was changed in place, or was released by an earlier backward pass.
  const Tensor& get() const;
  View view() const { return get().view(); }
  bool defined() const { return tensor_.defined() || parameter_ != nullptr || recomputed_ != nullptr; }
  void release();
  /// 0 for what has to be made again or fetched, until that is done.
  std::size_t nbytes() const;

 private:
  mutable Tensor tensor_;                    // of parameter_: once it was asked for, until release()
  std::shared_ptr<AutogradMeta> parameter_;  // saved by identity
  std::shared_ptr<Recomputed> recomputed_;   // instead of it
  std::uint32_t version_ = 0;
  bool released_ = false;
};

/// What saves `leaf` for a backward pass keeps no hold of its memory: the pass asks values(), which gives the
/// same values again, wherever they were in the meantime (on the host, on another GPU, on disk). A copy
/// continues the version of what it stands for (Storage::continue_version). An empty function ends it.
void save_by_identity(Tensor& leaf, std::function<Tensor()> values);

/// A result that is made again when the first of the SavedTensors that share it is asked for it, and is there
/// until the last of them is released.
class Recomputed {
 public:
  using Function = std::function<Tensor(std::span<const Tensor>)>;
  Recomputed(const Tensor& result, std::span<const Tensor* const> inputs, Function function);
  /// How `tensor` is made again; null where it is not, or where its memory was changed in place since.
  static std::shared_ptr<Recomputed> of(const Tensor& tensor);
  /// Throws as SavedTensor::get() does, of the inputs.
  const Tensor& get();
  std::size_t nbytes() const { return value_.defined() ? value_.nbytes() : 0; }
  /// How many results are made one after the other for this one.
  int depth() const { return depth_; }

 private:
  std::vector<SavedTensor> inputs_;
  Function function_;
  Tensor value_;
  std::uint32_t version_;  // of the memory that the result was in first
  int depth_ = 1;
};

/// Where a kernel writes one gradient. `view` is absent when nobody needs it.
struct GradSlot {
  View view;
  bool accumulate = false;
  explicit operator bool() const { return static_cast<bool>(view); }
};

/// What a node's backward() works with. All gradients are contiguous, of the shape and dtype of their tensor.
class BackwardContext {
 public:
  BackwardContext(Node& node, std::vector<Node*>& ready, bool retains_graph = false)
      : node_(node), ready_(ready), retains_graph_(retains_graph) {}

  /// The gradient of output `i`; undefined where none arrived.
  const Tensor& grad(int i = 0) const;
  bool needs(int input) const;
  /// Whether a gradient of input `input` has arrived already, so that slot() would accumulate.
  bool has_gradient(int input) const;
  /// Whether the graph may be used once more, so that a node cannot give its saved memory away.
  bool retains_graph() const { return retains_graph_; }
  /// The destination for the gradient of input `input`. Ask right before the launch that fills it: where two
  /// inputs are one tensor, the second slot accumulates onto the first.
  GradSlot slot(int input);
  /// Whether contiguous_slot() can give one destination for these inputs: all are needed and leaves, and
  /// their gradients are still to come, or have been merged before.
  bool joins(std::span<const int> inputs) const;
  /// slot() for the gradients of several leaves as one tensor (core/contiguous_rows.h); their shapes differ
  /// on the first axis only, and joins() holds for them.
  GradSlot contiguous_slot(std::span<const int> inputs);
  /// Hands over a tensor as (a part of) the gradient of input `input`, without a copy where that is possible.
  void pass(int input, Tensor grad);
  /// What has arrived of the gradient of input `input`, for a node that adds to it by other means than slot()
  /// and passes it back: sums are then rounded as with slot(). Undefined where nothing has, or input is a
  /// leaf.
  Tensor take(int input);
  Stream stream() const;

 private:
  Tensor& pending(const Edge& edge);
  std::vector<GradBuffer*> leaf_buffers(std::span<const int> inputs) const;
  Node& node_;
  std::vector<Node*>& ready_;  // heap of nodes with a gradient, newest first
  bool retains_graph_;
};

/// A recorded operation. Derived structs hold what backward needs as SavedTensor members and list them in
/// saved().
class Node : public GradFn {
 public:
  Node();
  ~Node() override;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  virtual std::string_view name() const = 0;
  /// Fills the slots of the inputs that are needed from the gradients of the outputs.
  virtual void backward(BackwardContext& ctx) = 0;
  /// Every saved tensor; they are released after the backward pass.
  virtual std::vector<SavedTensor*> saved() { return {}; }
  /// Leaves that get a gradient from inside backward(), besides those that are inputs.
  virtual std::span<const std::shared_ptr<AutogradMeta>> leaves_inside() const { return {}; }

  void set_inputs(std::span<const Tensor* const> inputs);
  const std::vector<Edge>& inputs() const { return inputs_; }
  std::uint64_t sequence() const { return sequence_; }
  /// The full name of the module that the op ran in; empty where nobody looked at scopes.
  const std::string& module() const { return module_; }
  std::size_t saved_bytes();

 private:
  friend class BackwardContext;
  friend class Engine;
  friend class Recomputed;
  friend void set_recomputed(const Tensor& result, std::span<const Tensor* const> inputs,
                             Recomputed::Function function);
  std::vector<Edge> inputs_;
  std::vector<std::shared_ptr<Recomputed>> recomputed_;  // of the outputs, for those who save them
  std::vector<Tensor> grads_;                            // of the outputs, while a backward pass runs
  std::uint64_t sequence_;  // creation order: inputs always come before their consumers
  std::string module_;
  bool queued_ = false;
};

/// Collects, while it lives, the leaves that ops of this thread would record outside of grad mode.
class LeafCollector {
 public:
  LeafCollector();
  ~LeafCollector();
  LeafCollector(const LeafCollector&) = delete;
  LeafCollector& operator=(const LeafCollector&) = delete;
  /// Each once, in the order of their first use.
  const std::vector<std::shared_ptr<AutogradMeta>>& leaves() const { return leaves_; }

 private:
  friend bool needs_grad(std::span<const Tensor* const> inputs);
  void add(const Tensor& tensor);
  std::vector<std::shared_ptr<AutogradMeta>> leaves_;
  LeafCollector* outer_;
};

/// Whether an op on these inputs has to be recorded.
bool needs_grad(std::initializer_list<const Tensor*> inputs);
bool needs_grad(std::span<const Tensor* const> inputs);

void connect(Tensor& output, std::shared_ptr<Node> node, std::uint32_t output_index);
/// Throws NonFinite when `tensor` holds a NaN or an infinity. It names the op and its module, and tells what
/// the values of `inputs` are like and where they came from.
void check_anomaly(std::string_view op, const Tensor& tensor, std::span<const Tensor* const> inputs = {});
/// Whether each op tells watch_op() of itself, recorded or not: for anomaly detection or RecordOrigins.
bool ops_watched();
/// An op has run. Throws as check_anomaly() does of an output.
void watch_op(std::string_view op, std::span<const Tensor* const> inputs, std::span<const Tensor> outputs);

/// Ends an op of several outputs, or of a variable number of inputs: see record.
template <class NodeType, class... Args>
void record_all(std::span<Tensor> outputs, std::span<const Tensor* const> inputs, Args&&... args) {
  const bool recorded = needs_grad(inputs), watched = ops_watched();
  if (!recorded && !watched) return;
  auto node = std::make_shared<NodeType>(std::forward<Args>(args)...);
  if (watched) watch_op(node->name(), inputs, outputs);
  if (!recorded) return;
  node->set_inputs(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) connect(outputs[i], node, static_cast<std::uint32_t>(i));
}

/// Whether who saves `tensor` keeps how to make it again.
bool is_recomputed(const Tensor& tensor);
void set_recomputed(const Tensor& result, std::span<const Tensor* const> inputs,
                    Recomputed::Function function);

/// For the recorded result of an op that costs little more than reading its inputs: inside
/// SelectiveRecompute, who saves `result` saves `inputs` instead. function(inputs), called without
/// gradients, has to give the same bits. It pays where the op's own node keeps those inputs anyway, or where
/// they are recomputed too.
template <class Function>
Tensor recomputable(Tensor result, std::span<const Tensor* const> inputs, Function&& function) {
  if (selective_recompute() && result.requires_grad() && !result.is_leaf())
    set_recomputed(result, inputs, std::forward<Function>(function));
  return result;
}
template <class Function>
Tensor recomputable(Tensor result, std::initializer_list<const Tensor*> inputs, Function&& function) {
  return recomputable(std::move(result), std::span(inputs.begin(), inputs.size()),
                      std::forward<Function>(function));
}

/// Ends an op: makes `output` the result of a NodeType built from `args`, if one of `inputs` needs a
/// gradient. The position in `inputs` is the number that backward() knows an input by; undefined tensors take
/// a place too.
template <class NodeType, class... Args>
Tensor record(Tensor output, std::initializer_list<const Tensor*> inputs, Args&&... args) {
  record_all<NodeType>(std::span(&output, 1), std::span(inputs.begin(), inputs.size()),
                       std::forward<Args>(args)...);
  return output;
}

}  // namespace ingot
