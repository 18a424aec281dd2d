#include "ingot/train/frozen_shards.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "ingot/autograd/node.h"
#include "ingot/core/backend.h"
#include "ingot/core/memory.h"
#include "ingot/dist/agreement.h"
#include "ingot/dist/ordered_sum.h"
#include "ingot/train/moved_tensors.h"

namespace ingot {
namespace {

constexpr std::size_t kApart = 256;  // bytes between tensors that ops do not join

void copy_bytes(void* to, const void* from, std::size_t bytes, Device device) {
  backend(device).copy(to, from, bytes, current_stream(device));
}

}  // namespace

FrozenShards::FrozenShards(std::span<const std::vector<Tensor*>> blocks, dist::Communicator& communicator,
                           dist::Background& background)
    : GatheredBlocks(std::ssize(blocks), background), communicator_(communicator), blocks_(blocks.size()) {
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks_[i].items = items_of(blocks[i]);
  check_sizes();
  agree_on_neighbours();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    take(blocks_[i]);
    leave(static_cast<std::int64_t>(i));
  }
  if (!blocks_.empty() && !blocks_.front().items.empty())  // of what the whole weights leave
    backend(blocks_.front().own.device()).trim();
}

FrozenShards::~FrozenShards() {
  settle_all();
  for (const Block& block : blocks_)
    for (const Item& item : block.items) save_by_identity(*item.place, {});
}

dist::Slice FrozenShards::own_slice(const Block& block) const {
  return block.slices[static_cast<std::size_t>(communicator_.rank())];
}

std::vector<FrozenShards::Item> FrozenShards::items_of(std::span<Tensor* const> places) {
  std::vector<Item> items;
  items.reserve(places.size());
  for (Tensor* place : places)
    if (place->nbytes() > 0) items.push_back({.place = place});
  return items;
}

// Ranks whose blocks differ would gather bytes of others at the wrong places.
void FrozenShards::check_sizes() const {
  dist::Settings sizes;
  sizes.reserve(blocks_.size());
  for (const Block& block : blocks_) {
    std::size_t bytes = 0;
    for (const Item& item : block.items) bytes += item.place->nbytes();
    sizes.emplace_back(fmt::format("weights of layer {} that do not train", sizes.size()),
                       fmt::format("{} tensors of {} bytes", block.items.size(), bytes));
  }
  dist::check_agreement(communicator_, sizes,
                        "start every rank from the same model, with the same base_format and build");
}

// Neighbours in memory stay neighbours, since ops join them, where they are on every rank: one that has
// packed a matrix itself has it elsewhere than those that map a file.
void FrozenShards::agree_on_neighbours() {
  std::string mine;
  for (const Block& block : blocks_) {
    const char* end = nullptr;
    for (const Item& item : block.items) {
      const auto* begin = item.place->view().as<const char>();
      mine.push_back(begin == end ? '+' : '-');
      end = begin + item.place->nbytes();
    }
  }
  const std::vector<std::string> all = communicator_.all_gather(mine);
  std::size_t at = 0;
  for (Block& block : blocks_) {
    for (Item& item : block.items) {
      item.follows = std::ranges::all_of(all, [at](const std::string& of) { return of[at] == '+'; });
      ++at;
    }
  }
}

// What does not follow the item before stays apart, so that ops do not join it.
void FrozenShards::take(Block& block) const {
  if (block.items.empty()) return;
  for (Item& item : block.items) {
    if (!item.follows) block.bytes = (block.bytes / kApart + 1) * kApart;
    item.at = block.bytes;
    block.bytes += item.place->nbytes();
  }
  const MemoryTagScope tag(MemoryTag::parameter);
  block.slices = dist::equal_slices(block.bytes, communicator_.size());
  const dist::Slice slice = own_slice(block);
  const Device device = block.items.front().place->device();
  block.own = Tensor::zeros({static_cast<std::int64_t>(slice.size())}, DType::u8, device);
  for (const Item& item : block.items) {
    const std::size_t first = std::clamp(item.at, slice.begin, slice.end),
                      last = std::clamp(item.at + item.place->nbytes(), slice.begin, slice.end);
    if (first == last) continue;
    copy_bytes(block.own.view().as<char>() + (first - slice.begin),
               item.place->view().as<char>() + (first - item.at), last - first, device);
  }
}

// From here on whoever saves a place for a backward pass asks for it again.
void FrozenShards::leave(std::int64_t i) {
  for (const Item& item : at(i).items)
    save_by_identity(*item.place, [this, i, place = item.place] {
      acquire_backward(i);
      return *place;
    });
  drop(i);
}

// Memory of the stream that computes, which another thread fills.
void FrozenShards::fetch(std::int64_t i) {
  Block& block = at(i);
  if (block.items.empty()) return;
  const MemoryTagScope tag(MemoryTag::parameter);
  const Device device = block.own.device();
  block.memory = Tensor::empty({static_cast<std::int64_t>(block.bytes)}, DType::u8, device);
  block.memory.storage()->continue_version(*block.own.storage());
  if (block.own.nbytes() > 0)
    copy_bytes(block.memory.view().as<char>() + own_slice(block).begin, block.own.view().data,
               block.own.nbytes(), device);
  begin_gather(i, device, [this, &block, memory = block.memory] {
    dist::all_gather(communicator_, memory, block.slices);
  });
}

void FrozenShards::finish(std::int64_t i) {
  Block& block = at(i);
  if (block.items.empty()) return;
  end_gather(i);
  for (const Item& item : block.items) {
    char* data = block.memory.view().as<char>() + item.at;
    const Tensor& away = *item.place;
    put_value(*item.place, {block.memory.storage(),
                            contiguous_view(data, away.shape(), away.dtype(), block.memory.device())});
  }
}

void FrozenShards::drop(std::int64_t i) {
  settle(i);
  Block& block = at(i);
  for (const Item& item : block.items)
    put_value(*item.place, without_memory(*item.place, block.own.device()));
  block.memory = {};
}

}  // namespace ingot
