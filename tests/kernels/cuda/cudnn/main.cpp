#include <cstdio>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "ingot/kernels/cuda/libraries/cudnn.h"

// cuDNN looks for plans without a GPU, but not without a library of the driver's name: the toolkit has one,
// to link with.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    dlopen(INGOT_CUDA_STUBS "/libcuda.so", RTLD_NOW | RTLD_GLOBAL);
  if (const std::string& problem = ingot::kernels::cuda::cudnn_problem(); !problem.empty()) {
    std::printf("skipped: %s\n", problem.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}
