#include "ingot/train/prefetched_blocks.h"

namespace ingot {

void PrefetchedBlocks::begin_fetch(std::int64_t block) {
  if (!has(block) || at(block).state != State::away) return;
  fetch(block);
  at(block).state = State::coming;
}

void PrefetchedBlocks::leave(std::int64_t block) {
  if (at(block).state == State::away || at(block).users > 0) return;
  drop(block);
  at(block).state = State::away;
}

void PrefetchedBlocks::use(std::int64_t block) {
  begin_fetch(block);
  for (std::int64_t other = 0; other < blocks(); ++other)
    if (other != block && other != block + step_) leave(other);
  if (at(block).state == State::coming) {
    try {
      finish(block);
    } catch (...) {
      drop(block);
      at(block).state = State::away;
      throw;
    }
    at(block).state = State::here;
  }
  begin_fetch(block + step_);
}

void PrefetchedBlocks::acquire(std::int64_t block) {
  use(block);
  ++at(block).users;
}

void PrefetchedBlocks::acquire_backward(std::int64_t block) {
  step_ = -1;
  use(block);
}

void PrefetchedBlocks::drop_all() {
  for (std::int64_t block = 0; block < blocks(); ++block) leave(block);
}

}  // namespace ingot
