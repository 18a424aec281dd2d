#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "ingot/mahjong/encoder.h"
#include "ingot/mahjong/shanten.h"
#include "ingot/mahjong/table.h"

namespace {
thread_local int allocations = 0;
}

// Every allocation of this program by `new`, counted. Where these are inlined, g++ takes them for a
// mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size != 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace ingot::mahjong {
namespace {

TEST(Table, NothingIsAllocatedWhilePlayingObservingAndEncoding) {
  prepare_shanten_tables();
  ChaCha8 random(seed_from_number(7));
  std::vector<float> out(kChannels * kKinds);
  std::array<IncrementalEncoder, 4> encoders;
  Table table = start_game(Rules::tenhou(), seed_from_number(7));
  encode(observe(table, 0), out);  // what is made once
  const int before = allocations;
  int decisions = 0;
  while (!table.over()) {
    if (table.pub.phase == Phase::RoundOver) {
      next_round(table);
      continue;
    }
    const int player = __builtin_ctz(table.to_act());
    const Observation seen = observe(table, player);
    const ActionList legal = legal_actions(seen);
    const Table undo = table;
    apply(table, player, legal[random.below(static_cast<std::uint32_t>(legal.size()))]);
    table = undo;
    apply(table, player, legal[random.below(static_cast<std::uint32_t>(legal.size()))]);
    encode(seen, out);
    encoders[static_cast<std::size_t>(player)].encode(seen);
    ++decisions;
  }
  EXPECT_EQ(allocations, before);
  EXPECT_GT(decisions, 100);
  std::vector<int> one(1);
  EXPECT_GT(allocations, before) << "the count works";
}

}  // namespace
}  // namespace ingot::mahjong
