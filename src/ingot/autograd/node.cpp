#include "ingot/autograd/node.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "ingot/base/error.h"
#include "ingot/base/scope.h"

namespace ingot {
namespace {

std::atomic<std::uint64_t> next_sequence{0};

// Releasing the last handle of a long chain would recurse once per node; instead nodes that die inside
// another's destructor are put aside and released from the outermost one.
struct Graveyard {
  std::vector<std::shared_ptr<Node>> nodes;
  bool active = false;
};
thread_local Graveyard graveyard;

thread_local LeafCollector* collector = nullptr;

// Of a longer chain each so many-th result is kept: making one again does not take ever longer, nor ever more
// of the stack.
constexpr int kDeepestRecomputed = 8;

}  // namespace

SavedTensor::SavedTensor(const Tensor& tensor) : recomputed_(Recomputed::of(tensor)) {
  if (recomputed_ != nullptr || !tensor.defined()) return;
  version_ = tensor.storage()->version();
  const std::shared_ptr<AutogradMeta>& meta = tensor.autograd_meta();
  if (meta != nullptr && meta->values) {
    parameter_ = meta;
  } else {
    tensor_ = tensor.detach();
  }
}

const Tensor& SavedTensor::get() const {
  INGOT_CHECK(!released_,
              Error("backward: the graph was already used and released; pass retain_graph to use it twice"));
  if (recomputed_ != nullptr) return recomputed_->get();
  if (parameter_ != nullptr && !tensor_.defined()) tensor_ = parameter_->values().detach();
  INGOT_CHECK(
      !tensor_.defined() || tensor_.storage()->version() == version_,
      Error("backward: a tensor saved for the backward pass was changed in place since; clone() it first"));
  return tensor_;
}

void SavedTensor::release() {
  released_ = released_ || defined();
  tensor_ = {};
  parameter_ = nullptr;
  recomputed_ = nullptr;
}

void save_by_identity(Tensor& leaf, std::function<Tensor()> values) {
  INGOT_CHECK(leaf.is_leaf(), Error("save_by_identity: the tensor is the result of an op, not a leaf"));
  if (leaf.autograd_meta() == nullptr) leaf.set_autograd_meta(std::make_shared<AutogradMeta>());
  leaf.autograd_meta()->values = std::move(values);
}

std::size_t SavedTensor::nbytes() const {
  if (recomputed_ != nullptr) return recomputed_->nbytes();
  return tensor_.defined() ? tensor_.nbytes() : 0;
}

Recomputed::Recomputed(const Tensor& result, std::span<const Tensor* const> inputs, Function function)
    : function_(std::move(function)), version_(result.storage()->version()) {
  inputs_.reserve(inputs.size());
  for (const Tensor* input : inputs) {
    inputs_.emplace_back(*input);
    if (const auto before = of(*input)) depth_ = std::max(depth_, before->depth() + 1);
  }
}

std::shared_ptr<Recomputed> Recomputed::of(const Tensor& tensor) {
  const AutogradMeta* meta = tensor.autograd_meta().get();
  if (meta == nullptr || meta->grad_fn == nullptr) return nullptr;
  const Node& node = static_cast<const Node&>(*meta->grad_fn);
  if (node.recomputed_.size() <= meta->output_index) return nullptr;
  const std::shared_ptr<Recomputed>& found = node.recomputed_[meta->output_index];
  return found != nullptr && found->version_ == tensor.storage()->version() ? found : nullptr;
}

const Tensor& Recomputed::get() {
  if (value_.defined()) return value_;
  const NoGrad no_grad;
  std::vector<Tensor> inputs;
  inputs.reserve(inputs_.size());
  for (const SavedTensor& input : inputs_) inputs.push_back(input.get());
  value_ = function_(inputs);
  inputs_.clear();  // which may be results that were made again for this one alone
  function_ = nullptr;
  return value_;
}

bool is_recomputed(const Tensor& tensor) { return Recomputed::of(tensor) != nullptr; }

void set_recomputed(const Tensor& result, std::span<const Tensor* const> inputs,
                    Recomputed::Function function) {
  const AutogradMeta& meta = *result.autograd_meta();
  auto recomputed = std::make_shared<Recomputed>(result, inputs, std::move(function));
  if (recomputed->depth() > kDeepestRecomputed) return;
  Node& node = static_cast<Node&>(*meta.grad_fn);
  if (node.recomputed_.size() <= meta.output_index) node.recomputed_.resize(meta.output_index + 1);
  node.recomputed_[meta.output_index] = std::move(recomputed);
}

Node::Node()
    : sequence_(next_sequence.fetch_add(1, std::memory_order_relaxed)),
      module_(scopes_watched() ? current_module() : std::string_view{}) {}

Node::~Node() {
  for (Edge& edge : inputs_) {
    if (edge.node != nullptr && edge.node.use_count() == 1) graveyard.nodes.push_back(std::move(edge.node));
  }
  if (graveyard.active) return;
  graveyard.active = true;
  while (!graveyard.nodes.empty()) {
    const std::shared_ptr<Node> dying = std::move(graveyard.nodes.back());
    graveyard.nodes.pop_back();
  }
  graveyard.active = false;
}

void Node::set_inputs(std::span<const Tensor* const> inputs) {
  inputs_.reserve(inputs.size());
  for (const Tensor* input : inputs) {
    Edge edge;
    const AutogradMeta* meta = input->autograd_meta().get();
    if (meta != nullptr && meta->requires_grad) {
      edge.shape = input->shape();
      edge.dtype = input->dtype();
      edge.device = input->device();
      if (meta->grad_fn != nullptr) {
        edge.node = std::static_pointer_cast<Node>(meta->grad_fn);
        edge.output_index = meta->output_index;
      } else {
        edge.leaf = input->autograd_meta();
      }
    }
    inputs_.push_back(std::move(edge));
  }
}

std::size_t Node::saved_bytes() {
  std::size_t bytes = 0;
  for (const SavedTensor* tensor : saved()) bytes += tensor->nbytes();
  return bytes;
}

LeafCollector::LeafCollector() : outer_(std::exchange(collector, this)) {}
LeafCollector::~LeafCollector() { collector = outer_; }

void LeafCollector::add(const Tensor& tensor) {
  if (!tensor.requires_grad() || !tensor.is_leaf()) return;
  const std::shared_ptr<AutogradMeta>& leaf = tensor.autograd_meta();
  if (std::ranges::find(leaves_, leaf) == leaves_.end()) leaves_.push_back(leaf);
  if (outer_ != nullptr) outer_->add(tensor);
}

bool needs_grad(std::initializer_list<const Tensor*> inputs) {
  return needs_grad(std::span(inputs.begin(), inputs.size()));
}

bool needs_grad(std::span<const Tensor* const> inputs) {
  if (grad_enabled()) return std::ranges::any_of(inputs, [](const Tensor* t) { return t->requires_grad(); });
  if (collector != nullptr) {
    for (const Tensor* input : inputs) collector->add(*input);
  }
  return false;
}

void connect(Tensor& output, std::shared_ptr<Node> node, std::uint32_t output_index) {
  auto meta = std::make_shared<AutogradMeta>();
  meta->requires_grad = true;
  meta->grad_fn = std::move(node);
  meta->output_index = output_index;
  output.set_autograd_meta(std::move(meta));
}

}  // namespace ingot
