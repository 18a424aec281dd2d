#include "ingot/dist/heartbeat.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingot/base/stopwatch.h"

namespace ingot::dist {
namespace {

using namespace std::chrono_literals;

// A rank that hears `beats` and nothing more, and counts what it sends and misses.
struct Watch {
  std::int64_t beats = 0;
  std::int64_t later = 0;  // more of them, once it was missed
  bool ends = false;       // the last of them says so
  std::atomic<int> sent{0}, goodbyes{0}, missed{0}, heard_again{0};
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
                  beats += later;
                },
            .tell_heard = [this] { ++heard_again; }};
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

TEST(Heartbeat, ARankThatIsHeardAgainIsMissedNoMoreAndMayBeMissedAgain) {
  Watch watch{.beats = 1, .later = 1};
  Heartbeat heartbeat(watch.line(), 0.4);
  for (const Stopwatch since; watch.missed < 2 && since.seconds() < 60;) std::this_thread::sleep_for(10ms);
  EXPECT_GE(watch.heard_again, 1);
  EXPECT_GE(watch.missed, 2);
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

TEST(OwnProgress, IsARateSoThatThreadsThatWakeNowAndThenAreIdleForEver) {
  OwnProgress idle, busy;
  idle.any({});
  busy.any({});
  for (int second = 1; second < 100; ++second) {
    EXPECT_FALSE(idle.any({.now = 1.0 * second, .processor = 40e-6 * second})) << second;
    EXPECT_TRUE(busy.any({.now = 0.01 * second, .processor = 0.005 * second})) << second;
  }
  EXPECT_TRUE(idle.any({.now = 100, .processor = 4e-3, .reads = 1}));
}

// As one is whose file system does not answer.
TEST(OwnProgress, IsWaitingWhereAThreadCannotBeInterrupted) {
  OwnProgress progress;
  progress.any();
  EXPECT_TRUE(progress.any({.now = 1e9, .waits_for_disk = true}));
  std::thread uninterruptible([] {
    const pid_t child = vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork): waits in state D
    if (child == 0) {
      usleep(500'000);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  });
  std::this_thread::sleep_for(100ms);
  int looks = 0, found = 0;
  for (const Stopwatch since; since.seconds() < 0.2; ++looks) found += progress.any() ? 1 : 0;
  uninterruptible.join();
  EXPECT_EQ(found, looks);
}

}  // namespace
}  // namespace ingot::dist
