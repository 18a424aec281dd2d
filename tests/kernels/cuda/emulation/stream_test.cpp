#include <string>

#include "tests/emulated_gpu/queue.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/kernels/cuda/hardware/launch.h"
#include "ingot/kernels/cuda/runtime/allocator.h"
#include "ingot/kernels/cuda/runtime/driver.h"

// Streams of the emulated device: each works in its own order, and events alone order two of them.
namespace ingot::kernels::cuda {
namespace {

using emulation::Deferred;
using emulation::OtherStreams;
using emulation::waits;

using test::message_of;

/// Two streams, and work that notes down a letter when it runs.
class CudaStreams : public ::testing::Test {
 protected:
  ~CudaStreams() override {
    driver::destroy_event(event_);
    for (void* stream : {a_, b_}) driver::destroy_stream(stream);
  }

  void put(void* stream, char letter) {
    emulation::submit(stream, [this, letter] { done_ += letter; });
  }
  static void put_error(void* stream) {
    emulation::submit(stream, [] { throw KernelError("made up", "failed"); });
  }

  void *a_ = driver::create_stream(), *b_ = driver::create_stream(), *event_ = driver::create_event();
  std::string done_;
};

TEST_F(CudaStreams, WorkIsDoneAtOnceUnlessItIsDeferred) {
  put(a_, '1');
  EXPECT_EQ(done_, "1");
  {
    const Deferred deferred;
    put(a_, '2');
    EXPECT_EQ(done_, "1");
  }
  EXPECT_EQ(done_, "12");
}

TEST_F(CudaStreams, WorkOfOneIsNotDoneByWaitingForAnother) {
  const Deferred deferred;
  put(a_, 'a');
  put(nullptr, '0');
  put(b_, 'b');
  driver::synchronize(b_);
  EXPECT_EQ(done_, "b");
  driver::synchronize(nullptr);
  EXPECT_EQ(done_, "b0");
  driver::synchronize(a_);
  EXPECT_EQ(done_, "b0a");
}

TEST_F(CudaStreams, AnEventOrdersTwo) {
  const Deferred deferred;
  put(a_, 'a');
  driver::record(event_, a_);
  put(a_, '-');
  put(b_, '0');
  driver::wait(b_, event_);
  put(b_, 'b');
  driver::synchronize(b_);
  EXPECT_EQ(done_, "0ab") << "and nothing behind the event";
}

TEST_F(CudaStreams, WaitsOfWaitsHoldToo) {
  const Deferred deferred;
  put(nullptr, '0');
  driver::record(event_, nullptr);
  driver::wait(a_, event_);
  put(a_, 'a');
  driver::record(event_, a_);
  driver::wait(b_, event_);
  put(b_, 'b');
  driver::record(event_, b_);
  driver::wait(nullptr, event_);
  put(nullptr, '1');
  driver::synchronize(nullptr);
  EXPECT_EQ(done_, "0ab1");
}

// What one stream writes and another one reads.
TEST_F(CudaStreams, AForgottenWaitReadsOldValues) {
  constexpr std::size_t kBytes = 16;
  auto* host = static_cast<unsigned char*>(driver::allocate_pinned(kBytes));
  for (const bool ordered : {false, true}) {
    const Deferred deferred;
    void* data = driver::allocate(kBytes);
    driver::fill_bytes(data, 7, kBytes, a_);
    driver::record(event_, a_);
    if (ordered) driver::wait(b_, event_);
    driver::copy(host, data, kBytes, b_);
    driver::synchronize(b_);
    EXPECT_EQ(host[kBytes - 1], ordered ? 7 : 0xff) << "poison where nothing was written yet";
    driver::deallocate(data);
  }
  driver::deallocate_pinned(host);
}

// What one stream reads and another one overwrites.
TEST_F(CudaStreams, OthersMayRunAhead) {
  for (const bool ordered : {false, true}) {
    done_.clear();
    const Deferred deferred(OtherStreams::ahead);
    put(a_, 'a');
    driver::record(event_, a_);
    if (ordered) driver::wait(b_, event_);
    put(b_, 'b');
    put(a_, 'c');
    driver::synchronize(a_);
    EXPECT_EQ(done_, ordered ? "abc" : "bac");
  }
}

TEST_F(CudaStreams, AWaitMeansTheRecordingAtItsTime) {
  const Deferred deferred;
  put(a_, '1');
  driver::record(event_, a_);
  driver::wait(b_, event_);
  put(a_, '2');
  driver::record(event_, a_);
  put(b_, 'b');
  driver::synchronize(b_);
  EXPECT_EQ(done_, "1b");
}

TEST_F(CudaStreams, AWaitForAnEventThatWasNeverRecordedPasses) {
  const Deferred deferred;
  put(a_, 'a');
  driver::wait(b_, event_);
  put(b_, 'b');
  EXPECT_TRUE(driver::done(event_));
  driver::wait_for(event_);
  driver::synchronize(b_);
  EXPECT_EQ(done_, "b");
}

TEST_F(CudaStreams, AWaitOutlivesItsEventAndThatOnesStream) {
  const Deferred deferred;
  void *stream = driver::create_stream(), *event = driver::create_event();
  put(stream, '1');
  driver::record(event, stream);
  driver::wait(b_, event);
  driver::record(event_, stream);
  driver::destroy_event(event);
  driver::destroy_stream(stream);
  put(b_, 'b');
  EXPECT_FALSE(driver::done(event_));
  driver::synchronize(b_);
  EXPECT_EQ(done_, "1b");
  EXPECT_TRUE(driver::done(event_));
}

TEST_F(CudaStreams, WorkOfADestroyedOneIsStillDone) {
  {
    const Deferred deferred;
    void* stream = driver::create_stream();
    put(stream, '1');
    driver::destroy_stream(stream);
    stream = driver::create_stream();  // often at the same address
    put(stream, '2');
    driver::synchronize(stream);
    EXPECT_EQ(done_, "2");
    driver::destroy_stream(stream);
  }
  EXPECT_EQ(done_, "21");
}

TEST_F(CudaStreams, AnEventIsDoneWhenItsOwnStreamHasComeThere) {
  const Deferred deferred;
  put(a_, 'a');
  driver::record(event_, a_);
  put(a_, '-');
  put(b_, 'b');
  driver::synchronize(b_);
  EXPECT_FALSE(driver::done(event_));
  driver::wait_for(event_);
  EXPECT_TRUE(driver::done(event_));
  EXPECT_EQ(done_, "ba");
}

TEST_F(CudaStreams, WaitsAreCountedWhereTheHostHasToWait) {
  const Deferred deferred;
  const long before = waits().events;
  put(a_, 'a');
  driver::record(event_, a_);
  driver::wait(b_, event_);
  EXPECT_EQ(waits().events, before);
  driver::wait_for(event_);
  EXPECT_EQ(waits().events, before + 1);
  driver::wait(b_, event_);  // for what is done
  driver::record(event_, b_);
  driver::wait_for(event_);
  EXPECT_EQ(waits().events, before + 1);
}

TEST_F(CudaStreams, FreeingMemoryWaitsForAll) {
  const Deferred deferred;
  void* data = driver::allocate(16);
  put_error(a_);
  put(a_, 'a');
  put(b_, 'b');
  driver::deallocate(data);
  EXPECT_EQ(done_.size(), 2U) << done_;
}

TEST_F(CudaStreams, CopiesOfPageableMemoryWaitForTheirOwn) {
  const Deferred deferred;
  int from = 1, to = 0;
  put(a_, 'a');
  put(b_, 'b');
  driver::copy(&to, &from, sizeof(int), b_);
  EXPECT_EQ(to, 1);
  EXPECT_EQ(done_, "b");
}

TEST_F(CudaStreams, GraphsRunInTheOneThatTheyAreLaunchedIn) {
  driver::begin_capture(a_);
  put(a_, '1');
  put(a_, '2');
  void* graph = driver::end_capture(a_);
  {
    const Deferred deferred;
    put(a_, 'a');
    put(b_, 'b');
    driver::launch_graph(graph, b_);
    driver::destroy_graph(graph);
    put(b_, 'c');
    driver::synchronize(b_);
    EXPECT_EQ(done_, "b12c");
  }
  EXPECT_EQ(done_, "b12ca");
}

TEST_F(CudaStreams, RecordedWorkIsNotOrderedAgainstWorkThatIsNot) {
  const Deferred deferred;
  put(b_, 'b');
  driver::record(event_, b_);
  driver::begin_capture(a_);
  const std::string outside = message_of<Error>([&] { driver::wait(a_, event_); });
  EXPECT_NE(outside.find("uncaptured work"), std::string::npos) << outside;
  driver::record(event_, a_);
  driver::wait(a_, event_);
  const std::string inside = message_of<Error>([&] { driver::wait(b_, event_); });
  EXPECT_NE(inside.find("capturing stream"), std::string::npos) << inside;
  driver::abandon_capture(a_);
}

TEST_F(CudaStreams, ErrorsReachWhoeverWaits) {
  const Deferred deferred;
  put_error(a_);
  put(a_, 'a');
  driver::record(event_, a_);
  driver::wait(b_, event_);
  put(b_, 'b');
  EXPECT_NE(message_of<KernelError>([&] { driver::synchronize(b_); }), "");
  EXPECT_EQ(done_, "");
  driver::synchronize(b_);
  EXPECT_EQ(done_, "ab") << "a failure ends no wait";
}

TEST_F(CudaStreams, ABlockIsUsedAgainWhenTheLastOneThatUsedItIsDone) {
  CachingAllocator allocator;
  const Deferred deferred;
  const auto next = [&] { return allocator.allocate(1000, a_); };
  void* block = next();
  put(b_, 'b');
  allocator.deallocate(block, b_);
  void* second = next();
  driver::synchronize(a_);
  void* third = next();
  ASSERT_TRUE(second != block && third != block);
  driver::synchronize(b_);
  ASSERT_EQ(next(), block);
  for (void* used : {block, second, third}) allocator.deallocate(used, a_);
}

}  // namespace
}  // namespace ingot::kernels::cuda
