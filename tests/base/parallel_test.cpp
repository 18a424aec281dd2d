#include "ingot/base/parallel.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/base/parallel_threads.h"

namespace ingot {
namespace {

class ThreadCount {
 public:
  explicit ThreadCount(int n) : before_(num_threads()) { set_num_threads(n); }
  ~ThreadCount() { set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

std::ptrdiff_t threads_of_the_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

TEST(Parallel, OneThreadIsOfTheCallingThreadAlone) {
  const ThreadCount count(4);
  {
    const OneThread alone;
    EXPECT_EQ(num_threads(), 1);
    std::thread([] { EXPECT_EQ(num_threads(), 4); }).join();
  }
  EXPECT_EQ(num_threads(), 4);
}

TEST(Parallel, ReleasedThreadsEndAndTheNextLoopStartsNewOnes) {
  const ThreadCount count(4);
  const auto run = [] { parallel_for(4, 1, [](std::int64_t, std::int64_t) {}); };
  std::thread([&] {  // which no other test has given threads
    const std::ptrdiff_t before = threads_of_the_process();
    run();
    EXPECT_EQ(threads_of_the_process(), before + 3);
    release_threads();
    for (int i = 0; i < 2000 && threads_of_the_process() != before; ++i)  // a thread's end takes its time
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(threads_of_the_process(), before);
    run();
    EXPECT_EQ(threads_of_the_process(), before + 3);
    release_threads();
  })
      .join();
}

TEST(Parallel, ANumberOfThreadsThatCannotBeIsRefused) {
  const int before = num_threads();
  for (const int n : {0, -1, 4097, 1'000'000'000}) EXPECT_THROW(set_num_threads(n), InvalidConfig) << n;
  EXPECT_EQ(num_threads(), before);
}

TEST(Parallel, AChosenNumberOfThreadsHoldsOnThreadsThatRanBeforeAndAfter) {
  const ThreadCount count(2);
  std::atomic<int> step{0};
  int before = 0, after = 0, later = 0;
  std::thread other([&] {
    before = num_threads();
    step = 1;
    while (step != 2) std::this_thread::yield();
    after = num_threads();
  });
  while (step != 1) std::this_thread::yield();
  const ThreadCount more(3);
  step = 2;
  other.join();
  std::thread([&] { later = num_threads(); }).join();
  EXPECT_EQ(before, 2);
  EXPECT_EQ(after, 3);
  EXPECT_EQ(later, 3);
}

TEST(ParallelShare, GivesEachItemOutOnceInPiecesOfTheSizeAskedFor) {
  for (const int threads : {1, 2, 3, 5}) {
    const ThreadCount count(threads);
    for (const std::int64_t n : {0, 1, 2, 7, 64, 1001}) {
      for (const std::int64_t piece : {1, 3, 100, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(n));
        parallel_share(n, 4, piece, [&](std::int64_t begin, std::int64_t end) {
          EXPECT_LT(begin, end);
          EXPECT_LE(end - begin, threads == 1 || n <= 4 ? n : piece);
          for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        for (const auto& times : seen) EXPECT_EQ(times, 1) << threads << " threads, " << n << " items";
      }
    }
  }
}

TEST(ParallelShare, IsFinishedByTheOthersWhereAThreadHangsBack) {
  const ThreadCount count(2);
  std::atomic<int> done{0};
  // Whoever takes the first item waits for all the others, those of its own share among them.
  parallel_share(100, 1, 1, [&](std::int64_t begin, std::int64_t) {
    if (begin == 0) {
      while (done < 99) std::this_thread::yield();
    }
    ++done;
  });
  EXPECT_EQ(done, 100);
}

TEST(ParallelShare, UsesMoreThreadsThanItKeepsSharesForOnTheStack) {
  const ThreadCount count(100);
  std::vector<std::atomic<int>> seen(250);
  parallel_share(250, 1, 1, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_EQ(end, begin + 1);
    ++seen[static_cast<std::size_t>(begin)];
  });
  for (const auto& times : seen) EXPECT_EQ(times, 1);
}

TEST(ParallelShare, RethrowsAnExceptionAndRunsAloneInsideAnotherLoop) {
  const ThreadCount count(2);
  EXPECT_THROW(parallel_share(10, 1, 1, [](std::int64_t, std::int64_t) { throw std::runtime_error("no"); }),
               std::runtime_error);
  parallel_for(2, 1, [](std::int64_t, std::int64_t) {
    int calls = 0;
    parallel_share(10, 1, 1, [&](std::int64_t, std::int64_t) { ++calls; });
    EXPECT_EQ(calls, 1);
  });
}

}  // namespace
}  // namespace ingot
