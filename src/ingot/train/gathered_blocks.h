#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <vector>

#include "ingot/core/backend.h"
#include "ingot/dist/background.h"
#include "ingot/train/prefetched_blocks.h"

namespace ingot {

/// Blocks of which every rank has a part: ZeRO stage 3. They are gathered on a thread beside.
///
/// All ranks have to run the same passes over the blocks. What they communicate meanwhile goes through the
/// same thread, so that it has one order on all ranks.
class GatheredBlocks : public PrefetchedBlocks {
 public:
  /// So much may wait on the thread: gradients of one bucket on their way, of one more, and the weights of a
  /// block.
  static constexpr std::size_t kMostWaiting = 3;

  ~GatheredBlocks() override;

  /// What is in memory is out of date: somebody has changed the parts.
  void reshard_all() { drop_all(); }

 protected:
  GatheredBlocks(std::int64_t blocks, dist::Background& background);

  /// gather() runs on the thread beside, once the work that is in the current stream of `device` has ended.
  void begin_gather(std::int64_t block, Device device, std::function<void()> gather);
  /// Until it has ended. Throws where it did.
  void end_gather(std::int64_t block);
  /// The same, whatever became of it.
  void settle(std::int64_t block);
  /// All that is on its way: before its memory goes.
  void settle_all();

 private:
  struct Coming {
    std::future<void> gathered;  // valid until somebody has waited for it
    std::optional<Event> ready;  // of a device that works beside the host
  };
  Coming& coming(std::int64_t block) { return coming_[static_cast<std::size_t>(block)]; }

  std::vector<Coming> coming_;
  dist::Background& background_;
};

}  // namespace ingot
