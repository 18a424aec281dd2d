#include "ingot/train/weight_shards.h"

#include <utility>

#include "ingot/autograd/node.h"
#include "ingot/core/backend.h"
#include "ingot/core/memory.h"

namespace ingot {

WeightShards::WeightShards(OptimizerShard& shard, dist::Background& background)
    : GatheredBlocks(shard.blocks(), background),
      shard_(shard),
      blocks_(static_cast<std::size_t>(shard.blocks())) {
  for (std::int64_t i = 0; i < blocks(); ++i) {
    Block& block = at(i);
    block.buckets = shard_.buckets_of(i);
    for (const std::size_t bucket : block.buckets) {
      for (Parameter* parameter : shard_.parameters_of(bucket)) {
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
  settle_all();
  for (const Block& block : blocks_)
    for (const std::size_t bucket : block.buckets)
      for (Parameter* parameter : shard_.parameters_of(bucket)) save_by_identity(parameter->value, {});
}

// Memory of the stream that computes, which another thread fills.
void WeightShards::fetch(std::int64_t i) {
  Block& block = at(i);
  const MemoryTagScope tag(MemoryTag::parameter);
  std::vector<Tensor> own;
  own.reserve(block.buckets.size());
  for (const std::size_t bucket : block.buckets) own.push_back(shard_.own_values(bucket));
  block.values = std::move(own);
  const Device device = block.values.empty() ? kCpu : block.values.front().device();
  begin_gather(i, device, [this, &block, values = block.values] {
    for (std::size_t b = 0; b < values.size(); ++b) shard_.gather(block.buckets[b], values[b]);
  });
}

// Waits for the values, and puts them into the parameters.
void WeightShards::finish(std::int64_t i) {
  end_gather(i);
  const Block& block = at(i);
  for (std::size_t b = 0; b < block.values.size(); ++b) shard_.unshard(block.buckets[b], block.values[b]);
}

void WeightShards::drop(std::int64_t i) {
  settle(i);
  Block& block = at(i);
  block.values.clear();
  for (const std::size_t bucket : block.buckets) shard_.reshard(bucket);
}

}  // namespace ingot
