#include "ingot/train/offloaded_gradients.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "ingot/autograd/engine.h"
#include "ingot/autograd/ready_hooks.h"
#include "ingot/base/error.h"
#include "ingot/base/file_memory.h"
#include "ingot/base/files.h"
#include "ingot/base/scratch_memory.h"
#include "ingot/core/host_memory.h"
#include "ingot/core/memory.h"
#include "ingot/core/transfer.h"
#include "ingot/kernels/optimizer.h"
#include "ingot/train/layer_norms.h"

namespace ingot {
namespace {

Tensor bytes_of(const Tensor& memory, std::size_t at, const Tensor& like, Device device) {
  return {memory.storage(),
          contiguous_view(memory.view().as<std::byte>() + at, like.shape(), like.dtype(), device)};
}

// Of the layer that has most.
std::size_t largest_layer(std::span<Parameter* const> parameters) {
  std::map<std::string, std::size_t> layers;
  std::size_t most = 0;
  for (const Parameter* parameter : parameters)
    most = std::max(most, layers[layer_of(parameter->name)] += parameter->value.nbytes());
  return most;
}

}  // namespace

OffloadedGradients::OffloadedGradients(std::span<Parameter* const> parameters, const OffloadConfig& to)
    : device_(parameters.front()->value.device()),
      owner_(backend(device_)),
      on_host_(has_host_memory(device_)),
      to_(to),
      window_(largest_layer(parameters)) {
  if (to_.to == Offload::disk) make_directories(to_.directory);
  leaves_.reserve(parameters.size());
  std::size_t partials = 0;
  for (Parameter* parameter : parameters) {
    parameter->value.set_grad({});
    const View value = parameter->value.view();
    const auto count = static_cast<std::size_t>(kernels::norm_partials(std::span(&value, 1)));
    numbers_.emplace(parameter, leaves_.size());
    leaves_.push_back({.parameter = parameter, .block = {}, .partial = partials, .partials = count});
    partials += count;
  }
  if (on_host_) {
    keep_in_files();
    return;
  }
  {
    const MemoryTagScope tag(MemoryTag::optimizer);
    partials_ = Tensor::zeros({static_cast<std::int64_t>(partials)}, DType::f64, device_);
    unused_ = Tensor::zeros({}, DType::f32, device_);
  }
  up_ = owner_.create_stream();
  down_ = owner_.create_stream();
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const Tensor& value = leaves_[i].parameter->value;
    on_gradient_ready(
        value, [this, i] { leave(i); },
        [this, i] {
          if (is_away(leaves_[i])) bring(i);
        });
  }
}

OffloadedGradients::~OffloadedGradients() {
  for (const Leaf& leaf : leaves_) {
    on_gradient_ready(leaf.parameter->value, {});
    buffer_of(leaf) = {};
  }
  if (on_host_) return;
  try {
    owner_.synchronize(up_);  // the copies read and write memory that goes
    owner_.synchronize(down_);
  } catch (const Error&) {
    // shows where the next one waits
  }
  owner_.destroy_stream(up_);
  owner_.destroy_stream(down_);
}

// Leaves whose values are adjacent have adjacent gradients, which one matmul makes.
void OffloadedGradients::keep_in_files() {
  std::vector<Tensor> values;
  values.reserve(leaves_.size());
  for (const Leaf& leaf : leaves_) values.push_back(leaf.parameter->value);
  const std::vector<std::int64_t> together(values.size(), 0);
  for (const GradBuckets::Layout& layout : GradBuckets::lay_out(values, ~std::size_t{0}, together)) {
    const DType dtype = values[layout.items.front().leaf].dtype();
    const auto memory = std::make_shared<ScratchMemory>(to_.directory, layout.elements * byte_size(dtype));
    const Tensor file = Tensor::wrap(memory->data(), {static_cast<std::int64_t>(layout.elements)}, dtype,
                                     device_, [memory] {});
    for (const GradBuckets::Layout::Item& item : layout.items) {
      const Tensor gradient =
          bytes_of(file, item.begin * byte_size(dtype), values[item.leaf].detach(), device_);
      buffer_of(leaves_[item.leaf]) = {.memory = gradient, .written = false, .fixed = true};
      on_gradient_ready(values[item.leaf], [gradient] { let_go(gradient.view().data, gradient.nbytes()); });
    }
  }
}

bool OffloadedGradients::is_away(const Leaf& leaf) const {
  const GradBuffer& gradient = buffer_of(leaf);
  return leaf.block != nullptr && gradient.written && gradient.memory.device() != device_;
}

std::shared_ptr<OffloadedGradients::Block> OffloadedGradients::make_block(const Tensor& gradient) const {
  const std::size_t bytes = gradient.storage()->bytes();
  const Shape shape{static_cast<std::int64_t>(bytes)};
  // Events live as long as the block, which an error may keep longer than this.
  std::shared_ptr<Block> block(new Block, [&owner = owner_](Block* made) {
    owner.destroy_event(made->left);
    owner.destroy_event(made->loaded);
    delete made;
  });
  if (to_.to == Offload::disk) {
    const auto memory = std::make_shared<ScratchMemory>(to_.directory, bytes);
    block->host = Tensor::wrap(memory->data(), shape, DType::u8, kCpu, [memory] {});
  } else {
    block->host = host_tensor(shape, DType::u8, device_);
  }
  block->left = owner_.create_event();
  block->loaded = owner_.create_event();
  return block;
}

std::shared_ptr<OffloadedGradients::Block> OffloadedGradients::block_on(
    const std::shared_ptr<Storage>& storage) const {
  const auto at = blocks_.find(storage.get());
  if (at == blocks_.end()) return nullptr;
  std::shared_ptr<Block> block = at->second.lock();
  return block != nullptr && block->storage.lock() == storage ? block : nullptr;  // not memory of before
}

// Copies and the optimizer may still use the host's memory of a block that goes.
void OffloadedGradients::move_leaf(std::size_t i, const std::shared_ptr<Block>& block) {
  Leaf& leaf = leaves_[i];
  if (leaf.block == block) return;
  if (leaf.block != nullptr && std::erase(leaf.block->leaves, i) > 0 && leaf.block->leaves.empty()) {
    owner_.synchronize(down_);
    owner_.synchronize(up_);
    owner_.synchronize(current_stream(device_));
  }
  block->leaves.push_back(i);
  leaf.block = block;
}

// The one that it was in last time, if that is as large, or the one of the same memory.
std::shared_ptr<OffloadedGradients::Block> OffloadedGradients::block_of(const Tensor& gradient,
                                                                        std::size_t i) {
  Leaf& leaf = leaves_[i];
  const std::shared_ptr<Storage>& storage = gradient.storage();
  const auto at =
      static_cast<std::size_t>(gradient.view().as<std::byte>() - static_cast<std::byte*>(storage->data()));
  const auto holds = [&](const Block& block) { return block.host.nbytes() == storage->bytes(); };
  std::shared_ptr<Block> block = block_on(storage);
  if (block == nullptr && leaf.block != nullptr && leaf.at == at && holds(*leaf.block)) block = leaf.block;
  if (block == nullptr) block = make_block(gradient);
  move_leaf(i, block);
  block->storage = storage;
  blocks_[storage.get()] = block;
  leaf.at = at;
  return block;
}

void OffloadedGradients::sum_squares(const Leaf& leaf, const Tensor& gradient) const {
  const View view = gradient.view();
  const View partials = contiguous_view(partials_.view().as<double>() + leaf.partial,
                                        {static_cast<std::int64_t>(leaf.partials)}, DType::f64, device_);
  kernels::launch(kernels::global_norm, current_stream(device_),
                  {.tensors = std::span(&view, 1), .partials = partials, .norm = unused_.view()});
}

// Its memory goes to work that comes behind in the current stream, and so behind the copy.
void OffloadedGradients::end_leaving(std::size_t but_bytes) {
  std::size_t bytes = 0;
  for (const Leaving& some : leaving_) bytes += some.gradient.nbytes();
  while (bytes > but_bytes) {
    bytes -= leaving_.front().gradient.nbytes();
    owner_.wait(current_stream(device_), leaving_.front().block->left);
    leaving_.pop_front();
  }
}

void OffloadedGradients::leave(std::size_t i) {
  GradBuffer& buffer = buffer_of(leaves_[i]);
  if (!buffer.written || buffer.memory.device() != device_) return;
  const Tensor gradient = buffer.memory.detach();
  sum_squares(leaves_[i], gradient);
  const std::shared_ptr<Block> block = block_of(gradient, i);
  drop(*block);
  end_leaving(window_ - std::min(window_, gradient.nbytes()));
  owner_.record(block->left, current_stream(device_));
  owner_.wait(down_, block->left);
  const Tensor home = bytes_of(block->host, leaves_[i].at, gradient, kCpu);
  owner_.copy(home.view().data, gradient.view().data, gradient.nbytes(), down_);
  owner_.record(block->left, down_);
  leaving_.push_back({.gradient = gradient, .block = block});
  buffer.memory = home;
  const std::shared_ptr<Block> last = last_left_.lock();
  if (last != nullptr && last != block) last->next = block;
  last_left_ = block;
}

// It begins to come, if it is not on its way.
void OffloadedGradients::start(Block& block) {
  if (block.device.defined()) return;
  const MemoryTagScope tag(MemoryTag::gradient);
  block.device = Tensor::empty(block.host.shape(), DType::u8, device_);
  // Memory of the stream that computes, which the one beside fills once it is free.
  owner_.record(block.loaded, current_stream(device_));
  owner_.wait(up_, block.loaded);
  owner_.wait(up_, block.left);
  owner_.copy(block.device.view().data, block.host.view().data, block.host.nbytes(), up_);
  owner_.record(block.loaded, up_);
}

// What came and was not asked for is out of date when the block leaves again.
void OffloadedGradients::drop(Block& block) {
  if (!block.device.defined()) return;
  owner_.wait(current_stream(device_), block.loaded);
  block.device = {};
}

// Passes want them in the same order. One that has come as often as this one is done for this pass.
void OffloadedGradients::start_next(const Block& block) {
  const std::shared_ptr<Block> next = block.next.lock();
  if (next == nullptr || next->brought >= block.brought) return;
  if (std::ranges::any_of(next->leaves, [this](std::size_t i) { return is_away(leaves_[i]); })) start(*next);
}

// With it come the others of its block.
void OffloadedGradients::bring(std::size_t i) {
  const std::shared_ptr<Block> block = leaves_[i].block;
  start(*block);
  owner_.wait(current_stream(device_), block->loaded);
  const Tensor memory = std::exchange(block->device, {});
  for (const std::size_t other : block->leaves) {
    GradBuffer& buffer = buffer_of(leaves_[other]);
    if (is_away(leaves_[other])) buffer.memory = bytes_of(memory, leaves_[other].at, buffer.memory, device_);
  }
  ++block->brought;
  start_next(*block);
}

// What no further pass asks for leaves, too.
void OffloadedGradients::settle() {
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    leave(i);
    if (leaves_[i].block == nullptr) continue;
    drop(*leaves_[i].block);
    leaves_[i].block->brought = 0;
  }
  end_leaving(0);
  last_left_.reset();
  blocks_.clear();  // of memory that has gone
}

ClippedNorm OffloadedGradients::norm(std::span<Parameter* const> parameters, double max_norm) {
  if (on_host_) return clip_by_global_norm(parameters, max_norm);
  settle();
  const Stream stream = current_stream(device_);
  std::vector<const Leaf*> some;
  some.reserve(parameters.size());
  std::size_t count = 0;
  for (const Parameter* parameter : parameters) {
    const auto number = numbers_.find(parameter);
    if (number == numbers_.end()) continue;
    const Leaf& leaf = leaves_[number->second];
    if (!buffer_of(leaf).written) continue;
    some.push_back(&leaf);
    count += leaf.partials;
  }
  const Tensor sums = Tensor::empty({static_cast<std::int64_t>(count)}, DType::f64, device_);
  double* to = sums.view().as<double>();
  for (const Leaf* leaf : some) {
    owner_.copy(to, partials_.view().as<double>() + leaf->partial, leaf->partials * sizeof(double), stream);
    to += leaf->partials;
  }
  ClippedNorm result{Tensor::empty({}, DType::f32, device_), Tensor::empty({}, DType::f32, device_)};
  kernels::launch(kernels::global_norm, stream,
                  {.tensors = {},
                   .partials = sums.view(),
                   .norm = result.norm.view(),
                   .clip = result.factor.view(),
                   .max_norm = max_norm});
  return result;
}

}  // namespace ingot
