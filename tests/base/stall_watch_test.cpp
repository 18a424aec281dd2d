#include "ingot/base/stall_watch.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace ingot {
namespace {

using namespace std::chrono_literals;

TEST(StallWatch, TellsOnceOfACallThatDoesNotComeBack) {
  std::atomic<int> told = 0;
  std::string what;
  StallWatch watch(20ms, [&](const std::string& call, std::chrono::seconds) {
    what = call;
    ++told;
  });
  watch.run("step()", [&] {
    while (told == 0) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(60ms);  // further looks tell nothing more
  });
  EXPECT_EQ(told, 1);
  EXPECT_EQ(what, "step()");
}

TEST(StallWatch, TellsOfASecondCallToo) {
  std::atomic<int> told = 0;
  StallWatch watch(10ms, [&](const std::string&, std::chrono::seconds) { ++told; });
  for (int call = 1; call <= 2; ++call)
    watch.run("step()", [&] {
      while (told < call) std::this_thread::sleep_for(1ms);
    });
  EXPECT_EQ(told, 2);
}

TEST(StallWatch, IsSilentOnceACallHasEndedOrThrown) {
  std::atomic<int> told = 0;
  StallWatch watch(500ms, [&](const std::string&, std::chrono::seconds) { ++told; });
  watch.run("step()", [] {});
  EXPECT_THROW(watch.run("step()", [] { throw 1; }), int);
  std::this_thread::sleep_for(800ms);
  EXPECT_EQ(told, 0);
}

}  // namespace
}  // namespace ingot
