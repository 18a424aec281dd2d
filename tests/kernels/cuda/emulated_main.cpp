#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include <gtest/gtest.h>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cuda/emulation/compiler.h"
#include "ingot/kernels/cuda/register.h"

// Every allocation is a block of its own, so that the emulator sees a kernel that leaves it.
int main(int argc, char** argv) {
  ingot::kernels::cpu::register_kernels();
  ingot::kernels::cuda::emulation::compile_in(ingot::test::source_dir());
  ingot::kernels::cuda::register_backends({.caching = false});
  ingot::testing::check_on({ingot::DeviceType::cuda, 0});
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
