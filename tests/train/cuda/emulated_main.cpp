#include <gtest/gtest.h>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cuda/register.h"

// Memory is cached as on a GPU: freeing it would make the device wait.
int main(int argc, char** argv) {
  ingot::kernels::cpu::register_kernels();
  ingot::kernels::cuda::register_backends();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
