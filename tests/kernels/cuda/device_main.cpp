#include <cstdio>
#include <cstdlib>

#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/core/backend.h"
#include "ingot/runtime/initialize.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  setenv("INGOT_THOROUGH", "1", 1);  // NOLINT(concurrency-mt-unsafe): before any thread
  ingot::initialize();
  const ingot::Device device{ingot::DeviceType::cuda, 0};
  if (ingot::BackendRegistry::instance().find(device) == nullptr) {
    std::printf("skipped: %s\n",
                ingot::BackendRegistry::instance().why_missing(ingot::DeviceType::cuda).c_str());
    return 77;
  }
  ingot::testing::check_on(device);
  return RUN_ALL_TESTS();
}
