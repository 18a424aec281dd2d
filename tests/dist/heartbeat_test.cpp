#include "ingot/dist/heartbeat.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "ingot/base/stopwatch.h"

namespace ingot::dist {
namespace {

using namespace std::chrono_literals;

// A rank that hears `beats` and nothing more, and counts what it sends and misses.
struct Watch {
  std::int64_t beats = 0;
  bool ends = false;  // the last of them says so
  std::atomic<int> sent{0}, goodbyes{0}, missed{0};
  std::atomic<std::int64_t> missed_in{0};

  Heartbeat::Line line() {
    return {.position = [] { return Beat{.operation = 1}; },
            .send = [this](const Beat& beat) { ++(beat.last ? goodbyes : sent); },
            .receive = [this]() -> std::optional<Beat> {
              if (heard == beats) return std::nullopt;
              ++heard;
              return Beat{.operation = heard, .last = ends && heard == beats};
            },
            .tell_silent =
                [this](const Beat& last, double) {
                  missed_in = last.operation;
                  ++missed;
                }};
  }

  std::int64_t heard = 0;
};

TEST(Heartbeat, ASilentRankIsMissedOnceWithTheOperationThatItCameToLast) {
  Watch watch{.beats = 3};
  {
    Heartbeat heartbeat(watch.line(), 0.4);
    for (const Stopwatch since; watch.missed == 0 && since.seconds() < 60;) std::this_thread::sleep_for(10ms);
    std::this_thread::sleep_for(600ms);
  }
  EXPECT_EQ(watch.missed, 1);
  EXPECT_EQ(watch.missed_in, 3);
  EXPECT_GE(watch.sent, 1);
  EXPECT_EQ(watch.goodbyes, 1);
}

TEST(Heartbeat, ARankThatSaidThatItGoesIsNotMissed) {
  Watch watch{.beats = 2, .ends = true};
  {
    Heartbeat heartbeat(watch.line(), 0.2);
    std::this_thread::sleep_for(1s);
  }
  EXPECT_EQ(watch.missed, 0);
}

TEST(Silence, TimeInWhichTheListenerWasHeldUpDoesNotCount) {
  Silence silence;
  silence.look(10);
  silence.look(10.5);
  EXPECT_DOUBLE_EQ(silence.seconds(), 0.5);
  silence.look(200);
  EXPECT_DOUBLE_EQ(silence.seconds(), 0.5 + Silence::kMostGap);
  silence.heard();
  silence.look(200.25);
  EXPECT_DOUBLE_EQ(silence.seconds(), 0.25);
}

TEST(OwnProgress, IsComputingOfAnyOtherThreadAndNotWaiting) {
  OwnProgress progress;
  std::atomic<bool> any_idle = false;
  progress.any();
  std::thread([] {
    volatile double x = 1;
    for (const Stopwatch since; since.seconds() < 0.05;) x = x * 1.0000001;
  }).join();
  EXPECT_TRUE(progress.any());
  // A page of the program may be read late, so one of several looks has to find nothing.
  for (int i = 0; i < 10 && !any_idle; ++i) {
    std::this_thread::sleep_for(50ms);
    any_idle = !progress.any();
  }
  EXPECT_TRUE(any_idle);
}

}  // namespace
}  // namespace ingot::dist
