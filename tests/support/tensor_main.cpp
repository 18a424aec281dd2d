#include <gtest/gtest.h>

#include "ingot/runtime/initialize.h"

int main(int argc, char** argv) {
  ingot::initialize();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
