#include "ingot/grammar/time_limit.h"

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/grammar/support.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/grammar/program.h"
#include "ingot/grammar/turn_mutex.h"

namespace ingot::grammar {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};

std::string message_of_compiling(milliseconds worked, milliseconds waited, bool& too_long) {
  const CompileTimeLimit limit(worked, waited);
  try {
    from_json_schema(test::small_vocabulary(), R"({"type":"array","items":{"type":"integer"}})");
    return "compiled";
  } catch (const InvalidConfig& error) {
    too_long = limit.waited_too_long();
    return error.what();
  }
}

TEST(CompileTimeLimit, EndsWhatWorksLonger) {
  bool waited = true;
  const std::string message = message_of_compiling(milliseconds(0), kLong, waited);
  EXPECT_NE(message.find("takes longer than 0 s"), message.npos) << message;
  EXPECT_FALSE(waited);
  EXPECT_EQ(message_of_compiling(kLong, kLong, waited), "compiled");
}

// The automata of strings and numbers are the same for all.
TEST(CompileTimeLimit, WaitingForAutomataThatOthersUseIsNotWorkAndHasALimitOfItsOwn) {
  std::optional<Rules> others(std::in_place, test::small_vocabulary(), true);
  bool waited = false, waited_too_long = false;
  std::future<std::string> patient =
      std::async(std::launch::async, [&] { return message_of_compiling(milliseconds(700), kLong, waited); });
  std::future<std::string> hasty = std::async(
      std::launch::async, [&] { return message_of_compiling(kLong, milliseconds(10), waited_too_long); });
  std::this_thread::sleep_for(milliseconds(800));
  others.reset();
  EXPECT_EQ(patient.get(), "compiled");
  const std::string message = hasty.get();
  EXPECT_NE(message.find("waited longer than 0.01 s"), message.npos) << message;
  EXPECT_TRUE(waited_too_long);
}

TEST(TurnMutex, WhoAsksAgainComesBehindThoseThatWait) {
  TurnMutex mutex;
  std::vector<int> order;  // under the mutex
  mutex.lock();
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) {
      mutex.lock();
      order.push_back(1);
      mutex.unlock();
    }
  });
  std::this_thread::sleep_for(milliseconds(50));  // it waits
  mutex.unlock();
  mutex.lock();
  EXPECT_FALSE(order.empty());
  mutex.unlock();
  other.join();
  EXPECT_EQ(order.size(), 50U);
}

}  // namespace
}  // namespace ingot::grammar
