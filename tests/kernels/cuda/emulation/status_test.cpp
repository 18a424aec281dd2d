#include "tests/emulated_gpu/memory.h"
#include "tests/kernels/cuda/device.h"
#include "tests/support/op_case.h"
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/core/backend.h"
#include "ingot/core/tensor.h"

namespace ingot {
namespace {

using kernels::cuda::emulation::set_lost;
using test::kDevice;

TEST(CudaStatus, KeepsTheLastErrorOfADeviceThatWorksOn) {
  EXPECT_EQ(backend(kDevice).status().state, BackendState::ready);
  EXPECT_THROW(Tensor::empty({1 << 20, 1 << 20}, DType::f32, kDevice), OutOfMemory);
  const BackendStatus status = backend(kDevice).status();
  EXPECT_EQ(status.state, BackendState::ready);
  EXPECT_NE(status.last_error.find("cuda:0"), std::string::npos) << status.last_error;
  EXPECT_EQ(Tensor::zeros({2}, DType::f32, kDevice).to_vector<float>(), (std::vector<float>{0, 0}));
}

TEST(CudaStatus, OfALostDeviceIsNotReadyAndAnotherIsChosen) {
  ASSERT_TRUE(BackendRegistry::instance().find_best().device().is_cuda());
  set_lost(0, true);
  set_lost(1, true);
  const BackendStatus status = backend(kDevice).status();
  const Device chosen = BackendRegistry::instance().find_best().device();
  set_lost(0, false);
  set_lost(1, false);
  EXPECT_EQ(status.state, BackendState::failed);
  EXPECT_FALSE(status.last_error.empty());
  EXPECT_EQ(chosen, kCpu);
  EXPECT_EQ(backend(kDevice).status().state, BackendState::ready);
}

}  // namespace
}  // namespace ingot
