#include <cstdlib>
#include <string>

#include "tests/serve/running_server.h"
#include "tests/support/source_dir.h"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "ingot/base/parallel.h"

namespace ingot::serve::test {
namespace {

// INGOT_SOAK_REQUESTS has it run longer, and watches memory then: before, it still grows to its bounds.
TEST(Soak, IllBehavedClientsLeaveNothingBehind) {
  const char* given = std::getenv("INGOT_SOAK_REQUESTS");
  const long requests = given != nullptr ? std::strtol(given, nullptr, 10) : 200;
  const int threads = num_threads();
  set_num_threads(1);  // more would wait for one another in steps of so small a model
  ServerOptions options;
  options.model.session.engine.kv_memory = std::size_t{512} << 10;
  options.model.session.engine.max_running = 8;
  options.model.scheduler.max_waiting = 200;
  const RunningServer server(options);
  std::string command = fmt::format("python3 -B {}/tests/serve/clients/soak.py {} --requests {} --streams 60",
                                    ingot::test::source_dir(), server.address(), requests);
  if (requests >= 20'000) command += fmt::format(" --pid {}", ::getpid());
  EXPECT_EQ(std::system(command.c_str()), 0);
  set_num_threads(threads);
  const infer::EngineStats left = server.engine();
  EXPECT_EQ(left.running, 0);
  EXPECT_EQ(left.waiting, 0);
  EXPECT_EQ(left.cache.running_slots, 0);
  EXPECT_EQ(left.cache.running, 0);
  EXPECT_LE(left.cache.idle, left.cache.budget);
}

}  // namespace
}  // namespace ingot::serve::test
