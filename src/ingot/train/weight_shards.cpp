#include "ingot/train/weight_shards.h"

#include <memory>

#include "ingot/autograd/node.h"
#include "ingot/base/error.h"
#include "ingot/core/memory.h"

namespace ingot {
namespace {

// Gradients of one bucket on their way, of one more, and the weights of a block.
constexpr std::size_t kMostWaiting = 3;

}  // namespace

WeightShards::WeightShards(OptimizerShard& shard)
    : PrefetchedBlocks(shard.blocks()),
      shard_(shard),
      blocks_(static_cast<std::size_t>(shard.blocks())),
      background_(kMostWaiting) {
  for (std::int64_t i = 0; i < blocks(); ++i) {
    Block& block = at(i);
    block.buckets = shard_.buckets_of(i);
    for (const std::size_t bucket : block.buckets) {
      for (Parameter* parameter : shard_.parameters_of(bucket)) {
        const Device device = parameter->value.device();
        if (!block.ready.has_value() && !backend(device).capabilities().host_memory)
          block.ready = backend(device).create_event();
        save_by_identity(parameter->value, [this, i, parameter] {
          acquire_backward(i);
          return parameter->value;
        });
      }
      shard_.reshard(bucket);
    }
  }
  if (!blocks_.empty() && !at(0).buckets.empty())  // of what the whole weights leave
    backend(shard_.parameters_of(at(0).buckets.front()).front()->value.device()).trim();
}

WeightShards::~WeightShards() {
  for (Block& block : blocks_) {
    if (block.gathered.valid()) block.gathered.wait();
    for (const std::size_t bucket : block.buckets)
      for (Parameter* parameter : shard_.parameters_of(bucket)) save_by_identity(parameter->value, {});
    if (block.ready.has_value()) backend(block.ready->device).destroy_event(*block.ready);
  }
}

// Memory of the stream that computes, which another thread fills.
void WeightShards::fetch(std::int64_t i) {
  Block& block = at(i);
  const MemoryTagScope tag(MemoryTag::parameter);
  std::vector<Tensor> own;
  own.reserve(block.buckets.size());
  for (const std::size_t bucket : block.buckets) own.push_back(shard_.own_values(bucket));
  block.values = std::move(own);
  if (block.ready.has_value())
    backend(block.ready->device).record(*block.ready, current_stream(block.ready->device));
  auto done = std::make_shared<std::promise<void>>();
  block.gathered = done->get_future();
  background_.run([this, &block, values = block.values, done] {
    try {
      if (block.ready.has_value()) backend(block.ready->device).synchronize(*block.ready);
      for (std::size_t b = 0; b < values.size(); ++b) shard_.gather(block.buckets[b], values[b]);
      done->set_value();
    } catch (...) {
      done->set_exception(std::current_exception());
      throw;
    }
  });
}

// Waits for the values, and puts them into the parameters.
void WeightShards::finish(std::int64_t i) {
  Block& block = at(i);
  try {
    block.gathered.get();
  } catch (const std::future_error&) {
    background_.wait();  // throws what ended the communication before it came to this
    throw Error("ranks: the weights of a layer were not gathered, as the communication had ended");
  }
  for (std::size_t b = 0; b < block.values.size(); ++b) shard_.unshard(block.buckets[b], block.values[b]);
}

void WeightShards::drop(std::int64_t i) {
  Block& block = at(i);
  if (block.gathered.valid()) block.gathered.wait();
  block.gathered = {};
  block.values.clear();
  for (const std::size_t bucket : block.buckets) shard_.reshard(bucket);
}

}  // namespace ingot
