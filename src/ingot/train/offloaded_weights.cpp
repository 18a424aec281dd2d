#include "ingot/train/offloaded_weights.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/base/file_memory.h"
#include "ingot/base/files.h"
#include "ingot/base/scratch_memory.h"
#include "ingot/core/memory.h"
#include "ingot/core/transfer.h"
#include "ingot/nn/weight_memory.h"
#include "ingot/ops/cast.h"
#include "ingot/train/moved_tensors.h"

namespace ingot {
namespace {

// Tensors that follow one another are adjacent where a ProjectionGroup would have them so, which makes one
// matmul of them: in full training. It leaves a frozen base apart, and what adapters' runs train of it.
std::size_t room_for(const Tensor& tensor, bool adjacent) {
  constexpr std::size_t kAlign = 256, kAdjacent = 64;
  if (adjacent && tensor.nbytes() % kAdjacent == 0) return tensor.nbytes();
  return (tensor.nbytes() / kAlign + 1) * kAlign;
}

bool has_adapters(ModuleRef model) {
  const auto adapted = [](const auto& named) { return !named.second->adapters.empty(); };
  return std::ranges::any_of(named_weights(model), adapted) ||
         std::ranges::any_of(named_experts(model), adapted);
}

}  // namespace

OffloadedWeights::OffloadedWeights(ModuleRef model, std::span<const ModuleRef> blocks, Device device,
                                   const OffloadConfig& to)
    : PrefetchedBlocks(std::ssize(blocks)),
      device_(device),
      owner_(backend(device)),
      on_host_(owner_.capabilities().host_memory),
      to_(to),
      trains_whole_(!has_adapters(model)),
      blocks_(blocks.size()) {
  if (to_.to == Offload::disk) make_directories(to_.directory);
  for (std::size_t i = 0; i < blocks.size(); ++i) take(blocks_[i], blocks[i]);
  move_rest(model);
  if (!on_host_) {
    up_ = owner_.create_stream();
    for (Block& block : blocks_) block.event = owner_.create_event();
  }
  for (std::int64_t i = 0; i < this->blocks(); ++i) leave_home(i);
}

OffloadedWeights::~OffloadedWeights() {
  for (Block& block : blocks_)
    for (const Item& item : block.items) save_by_identity(*item.place, {});
  if (on_host_) return;
  try {
    owner_.synchronize(up_);
    owner_.synchronize(current_stream(device_));  // store()
  } catch (const Error&) {
    // shows where the next one waits
  }
  for (const Block& block : blocks_) owner_.destroy_event(block.event);
  owner_.destroy_stream(up_);
}

std::size_t OffloadedWeights::bytes() const {
  std::size_t bytes = 0;
  for (const Block& block : blocks_)
    for (const Item& item : block.items) bytes += item.home.nbytes();
  return bytes;
}

bool OffloadedWeights::trains() const {
  const auto changes = [](const Item& item) { return item.trained != nullptr; };
  return std::ranges::any_of(blocks_, [&](const Block& b) { return std::ranges::any_of(b.items, changes); });
}

std::map<std::string, Tensor> OffloadedWeights::trained() const {
  owner_.synchronize(current_stream(device_));
  std::map<std::string, Tensor> all;
  for (const Block& block : blocks_)
    for (const Item& item : block.items)
      if (item.trained != nullptr) all[item.trained->name] = item.home;
  return all;
}

void OffloadedWeights::update(std::span<Parameter* const> parameters,
                              FunctionRef<void(std::span<Parameter* const>)> step) {
  if (!trains()) return step(parameters);
  std::vector<std::vector<Parameter*>> of_blocks(blocks_.size());
  std::unordered_set<const Parameter*> moved;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    for (const Item& item : blocks_[i].items) {
      if (item.trained == nullptr) continue;
      of_blocks[i].push_back(item.trained);
      moved.insert(item.trained);
    }
  }
  std::vector<Parameter*> rest(parameters.begin(), parameters.end());
  std::erase_if(rest, [&](const Parameter* parameter) { return moved.contains(parameter); });
  if (!rest.empty()) step(rest);
  begin();
  for (std::int64_t i = 0; i < blocks(); ++i) {
    const std::vector<Parameter*>& some = of_blocks[static_cast<std::size_t>(i)];
    if (some.empty()) continue;
    const LeasedBlock leased(this, i);
    step(some);
    store(i);
  }
  drop_all();
}

// In the stream of the steps, and so before the block is fetched again.
void OffloadedWeights::store(std::int64_t i) {
  if (on_host_) return;
  for (const Item& item : at(i).items) {
    if (item.trained == nullptr) continue;
    owner_.copy(item.home.view().data, item.place->view().data, item.home.nbytes(), current_stream(device_));
  }
  for (const Item& item : at(i).items) item.home.storage()->bump_version();
}

void OffloadedWeights::take(Block& block, ModuleRef module) {
  for (Parameter* parameter : moved_parameters(module))
    add(block, parameter->value, parameter->trainable() ? parameter : nullptr);
  for (const auto& [name, weight] : named_weights(module)) {
    taken_.insert(weight);
    for (Tensor* part : quantized_memory(*weight)) add(block, *part);
  }
  for (const auto& [name, experts] : named_experts(module)) {
    taken_.insert(experts);
    for (Tensor* part : quantized_memory(*experts)) add(block, *part);
  }
}

void OffloadedWeights::add(Block& block, Tensor& place, Parameter* trained) {
  INGOT_CHECK(backend(place.device()).capabilities().host_memory && place.is_contiguous(),
              Error("offload_weights: a weight is not on the host, where the model has to be loaded"));
  Tensor home = keep(place.detach(), trained != nullptr);
  put_value(place, home);
  const std::size_t room = room_for(home, trained != nullptr && trains_whole_);
  block.items.push_back({.place = &place, .home = std::move(home), .at = block.bytes, .trained = trained});
  block.bytes += room;
}

// A copy that lies where it is wanted, unless it does already.
Tensor OffloadedWeights::keep(const Tensor& value, bool changes) const {
  if (value.nbytes() == 0) return value;
  Tensor kept;
  if (to_.to == Offload::disk) {
    if (!changes && is_file_memory(value.view().data, value.nbytes())) return value;
    const auto memory = std::make_shared<ScratchMemory>(to_.directory, value.nbytes());
    kept = Tensor::wrap(memory->data(), value.shape(), value.dtype(), kCpu, [memory] {});
  } else {
    if (on_host_) return value;
    kept = host_tensor(value.shape(), value.dtype(), device_);
  }
  std::memcpy(kept.view().data, value.view().data, value.nbytes());
  return kept;
}

void OffloadedWeights::move_rest(ModuleRef model) const {
  std::unordered_set<const Tensor*> stay;
  for (const Block& block : blocks_)
    for (const Item& item : block.items) stay.insert(item.place);
  const MemoryTagScope tag(MemoryTag::parameter);
  std::vector<Parameter*> vectors;
  for (Parameter* parameter : parameters(model)) {
    if (stay.contains(&parameter->value) || parameter->value.device() == device_) continue;
    if (parameter->trainable() && parameter->shape().rank() == 1)
      vectors.push_back(parameter);
    else
      parameter->replace(to(parameter->value.detach(), device_));
  }
  move_vectors(vectors);
  for (const auto& [name, weight] : named_weights(model)) {
    if (taken_.contains(weight)) continue;
    for (Tensor* part : quantized_memory(*weight)) *part = to(*part, device_);
  }
  for (const auto& [name, experts] : named_experts(model)) {
    if (taken_.contains(experts)) continue;
    for (Tensor* part : quantized_memory(*experts)) *part = to(*part, device_);
  }
}

// Biases of a ProjectionGroup are adjacent, too.
void OffloadedWeights::move_vectors(std::span<Parameter* const> vectors) const {
  std::size_t bytes = 0;
  for (const Parameter* parameter : vectors) bytes += room_for(parameter->value, trains_whole_);
  if (bytes == 0) return;
  const Tensor memory = Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8, device_);
  std::size_t at = 0;
  for (Parameter* parameter : vectors) {
    const Tensor host = parameter->value.detach();
    const Tensor there(memory.storage(), contiguous_view(memory.view().as<std::byte>() + at, host.shape(),
                                                         host.dtype(), device_));
    at += room_for(host, trains_whole_);
    owner_.copy(there.view().data, host.view().data, host.nbytes(), current_stream(device_));
    owner_.synchronize(current_stream(device_));
    parameter->replace(there);
  }
}

// From here on whoever saves a place for a backward pass asks for it again.
void OffloadedWeights::leave_home(std::int64_t i) {
  for (const Item& item : at(i).items)
    save_by_identity(*item.place, [this, i, place = item.place] {
      acquire_backward(i);
      return *place;
    });
  if (!on_host_) drop(i);
}

// Memory of the stream that computes, which the one beside fills once it is free.
void OffloadedWeights::fetch(std::int64_t i) {
  Block& block = at(i);
  if (on_host_) {
    for (const Item& item : block.items) read_ahead(item.home.view().data, item.home.nbytes());
    return;
  }
  const MemoryTagScope tag(MemoryTag::parameter);
  block.memory = Tensor::empty({static_cast<std::int64_t>(block.bytes)}, DType::u8, device_);
  // What a backward pass saved of the weights as they were last time is not out of date.
  if (!block.items.empty()) block.memory.storage()->continue_version(*block.items.front().home.storage());
  owner_.record(block.event, current_stream(device_));
  owner_.wait(up_, block.event);
  for (const Item& item : block.items)
    owner_.copy(block.memory.view().as<std::byte>() + item.at, item.home.view().data, item.home.nbytes(),
                up_);
  owner_.record(block.event, up_);
}

void OffloadedWeights::finish(std::int64_t i) {
  if (on_host_) return;
  const Block& block = at(i);
  owner_.wait(current_stream(device_), block.event);
  for (const Item& item : block.items) {
    std::byte* data = block.memory.view().as<std::byte>() + item.at;
    put_value(*item.place,
              {block.memory.storage(), contiguous_view(data, item.home.shape(), item.home.dtype(), device_)});
  }
}

// Its memory goes to work that comes behind in the current stream, and so behind the copies.
void OffloadedWeights::drop(std::int64_t i) {
  Block& block = at(i);
  if (on_host_) {
    for (const Item& item : block.items) let_go(item.home.view().data, item.home.nbytes());
    return;
  }
  if (block.memory.defined()) owner_.wait(current_stream(device_), block.event);
  for (const Item& item : block.items) put_value(*item.place, without_memory(item.home, device_));
  block.memory = {};
}

}  // namespace ingot
