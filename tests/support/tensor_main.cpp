#include <cstdio>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/runtime/initialize.h"

int main(int argc, char** argv) {
  try {
    ingot::initialize();
  } catch (const ingot::DeviceNotAvailable& error) {  // of INGOT_BACKEND
    std::printf("skipped: %s\n", error.what());
    return 77;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
