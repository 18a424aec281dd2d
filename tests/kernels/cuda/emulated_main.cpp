#include <cstdlib>

#include "tests/emulated_gpu/compiler.h"
#include "tests/emulated_gpu/memory.h"
#include "tests/support/op_case.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"
#include <gtest/gtest.h>

#include "ingot/kernels/cpu/register.h"
#include "ingot/kernels/cuda/register.h"

// Two devices, and every allocation is a block of its own, so that the emulator sees a kernel that leaves it.
// What is compiled for this very emulator is kept for this run only.
int main(int argc, char** argv) {
  const ingot::test::TemporaryDirectory cache;
  setenv("INGOT_CACHE_DIR", cache.path().c_str(), 1);  // NOLINT(concurrency-mt-unsafe): before any thread
  ingot::kernels::cpu::register_kernels();
  ingot::kernels::cuda::emulation::compile_in(ingot::test::source_dir());
  ingot::kernels::cuda::emulation::set_devices(2);
  ingot::kernels::cuda::register_backends({.caching = false});
  ingot::testing::check_on({ingot::DeviceType::cuda, 0});
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
