#include "ingot/train/gathered_blocks.h"

#include <exception>
#include <memory>
#include <utility>

#include "ingot/base/error.h"

namespace ingot {

GatheredBlocks::GatheredBlocks(std::int64_t blocks, dist::Background& background)
    : PrefetchedBlocks(blocks), coming_(static_cast<std::size_t>(blocks)), background_(background) {}

GatheredBlocks::~GatheredBlocks() {
  for (const Coming& block : coming_)
    if (block.ready.has_value()) backend(block.ready->device).destroy_event(*block.ready);
}

void GatheredBlocks::begin_gather(std::int64_t i, Device device, std::function<void()> gather) {
  Coming& block = coming(i);
  if (!backend(device).capabilities().host_memory) {
    if (!block.ready.has_value()) block.ready = backend(device).create_event();
    backend(device).record(*block.ready, current_stream(device));
  }
  auto done = std::make_shared<std::promise<void>>();
  block.gathered = done->get_future();
  background_.run([ready = block.ready, gather = std::move(gather), done] {
    try {
      if (ready.has_value()) backend(ready->device).synchronize(*ready);
      gather();
      done->set_value();
    } catch (...) {
      done->set_exception(std::current_exception());
      throw;
    }
  });
}

void GatheredBlocks::end_gather(std::int64_t i) {
  try {
    coming(i).gathered.get();
  } catch (const std::future_error&) {
    background_.wait();  // throws what ended the communication before it came to this
    throw Error("ranks: the weights of a layer were not gathered, as the communication had ended");
  }
}

void GatheredBlocks::settle(std::int64_t i) {
  Coming& block = coming(i);
  if (block.gathered.valid()) block.gathered.wait();
  block.gathered = {};
}

void GatheredBlocks::settle_all() {
  for (std::int64_t i = 0; i < blocks(); ++i) settle(i);
}

}  // namespace ingot
