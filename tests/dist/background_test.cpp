#include "ingot/dist/background.h"

#include <atomic>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/parallel.h"

namespace ingot::dist {
namespace {

TEST(Background, DoesItsWorkInOrderBesideTheCaller) {
  Background background(3);
  std::vector<int> done;
  for (int i = 0; i < 10; ++i) background.run([&done, i] { done.push_back(i); });
  background.wait();
  EXPECT_EQ(done, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Background, HoldsItsCallerUpOnlyWhenTooMuchWaits) {
  Background background(2);
  std::promise<void> go;
  background.run([&] { go.get_future().wait(); });
  background.run([] {});
  std::atomic<bool> taken = false;
  std::thread caller([&] {
    for (int i = 0; i < 2; ++i) background.run([] {});
    taken = true;
  });
  EXPECT_FALSE(taken);
  go.set_value();
  caller.join();
  background.wait();
  EXPECT_TRUE(taken);
}

TEST(Background, AnErrorIsThrownByWaitAndDropsWhatCameAfter) {
  Background background(8);
  bool later = false;
  background.run([] { throw std::runtime_error("broken"); });
  background.run([&] { later = true; });
  EXPECT_THROW(background.wait(), std::runtime_error);
  background.wait();
  EXPECT_FALSE(later);
  background.run([&] { later = true; });
  background.wait();
  EXPECT_TRUE(later);
}

TEST(Background, ItsParallelLoopsTakeNoThreads) {
  Background background(1);
  const int before = num_threads();
  set_num_threads(4);
  bool alone = true;
  background.run([&] {
    const std::thread::id here = std::this_thread::get_id();
    parallel_for(100, 1, [&](auto, auto) { alone = alone && std::this_thread::get_id() == here; });
  });
  background.wait();
  set_num_threads(before);
  EXPECT_TRUE(alone);
}

}  // namespace
}  // namespace ingot::dist
