#include <array>
#include <cstdlib>
#include <memory>
#include <new>

#include "ingot/base/error.h"
#include "ingot/kernels/cpu/tile.h"

namespace ingot::kernels::cpu {
namespace {

struct Free {
  void operator()(void* p) const { std::free(p); }
};

struct Block {
  std::unique_ptr<void, Free> data;
  std::size_t bytes = 0;
};

constexpr std::size_t kSlots = 8;

}  // namespace

float* thread_scratch(std::size_t slot, std::size_t count) {
  thread_local std::array<Block, kSlots> blocks;
  INGOT_ASSERT(slot < kSlots);
  Block& block = blocks[slot];
  const std::size_t bytes = (count * sizeof(float) + 4095) / 4096 * 4096;
  if (block.bytes < bytes) {
    block.data.reset();
    block.bytes = 0;
    block.data.reset(std::aligned_alloc(4096, bytes));
    INGOT_CHECK(block.data != nullptr, OutOfMemory("kernel scratch", bytes, 0, 0));
    block.bytes = bytes;
  }
  return static_cast<float*>(block.data.get());
}

}  // namespace ingot::kernels::cpu
