#include "ingot/core/tensor.h"

#include <cstdlib>

#include <dlpack/dlpack.h>
#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/core/device_config.h"
#include "ingot/core/dlpack.h"
#include "ingot/core/tensor_buffer.h"

namespace ingot {
namespace {

Tensor transposed(const Tensor& x) {
  View view = x.view();
  std::swap(view.shape[0], view.shape[1]);
  std::swap(view.strides[0], view.strides[1]);
  return {x.storage(), view};
}

TEST(Tensor, HandlesAliasAndReportTheirLayout) {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor alias = x;  // NOLINT(performance-unnecessary-copy-initialization): what is tested
  alias.data<float>()[0] = 9;
  EXPECT_EQ(x.to_vector<float>()[0], 9);
  EXPECT_EQ(x.dim(-1), 3);
  EXPECT_EQ(x.stride(0), 3);
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_FALSE(transposed(x).is_contiguous());
  EXPECT_EQ(x.nbytes(), 24U);
}

TEST(Tensor, RefusesWrongSizesAndTypes) {
  EXPECT_THROW(Tensor::from<float>({1, 2}, {3}), DimensionMismatch);
  EXPECT_THROW(Tensor::zeros({2}).data<double>(), KernelError);
  EXPECT_THROW(Tensor::zeros({2}).item(), DimensionMismatch);
  EXPECT_THROW(Shape({-1}), DimensionMismatch);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1, 1, 1}), DimensionMismatch);
  EXPECT_THROW(Tensor::zeros({1}, DType::i64).set_requires_grad(true), Error);
}

TEST(Tensor, ItemReadsEveryKindOfElement) {
  EXPECT_EQ(Tensor::scalar(2.5F).item(), 2.5);
  EXPECT_EQ(Tensor::from<std::int64_t>({-7}, {1}).item(), -7);
  EXPECT_EQ(Tensor::from<bf16>({bf16(1.5F)}, {1, 1}).item(), 1.5);
  const bool yes = true;
  EXPECT_EQ(Tensor::from(std::span<const bool>(&yes, 1), {}).item(), 1);
}

TEST(Tensor, WrapReleasesForeignMemoryOnceWithTheLastHandle) {
  std::vector<float> memory{1, 2, 3};
  int released = 0;
  {
    Tensor outer;
    {
      const Tensor inner = Tensor::wrap(memory.data(), {3}, DType::f32, kCpu, [&] { ++released; });
      outer = inner;
    }
    EXPECT_EQ(released, 0);
    EXPECT_EQ(outer.data<float>(), memory.data());
  }
  EXPECT_EQ(released, 1);
}

TEST(Dlpack, RoundTripSharesMemoryAndKeepsStrides) {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor back = from_dlpack(to_dlpack(transposed(x)));
  EXPECT_EQ(back.view().data, x.view().data);
  EXPECT_EQ(back.shape(), Shape({3, 2}));
  EXPECT_EQ(back.stride(0), 1);
  EXPECT_EQ(back.stride(1), 3);
}

TEST(Dlpack, TheCapsuleKeepsTheMemory) {
  DLManagedTensor* capsule = nullptr;
  {
    const Tensor x = Tensor::from<float>({7}, {1});
    capsule = to_dlpack(x);
  }
  EXPECT_EQ(*static_cast<float*>(capsule->dl_tensor.data), 7);
  EXPECT_EQ(from_dlpack(capsule).item(),
            7);  // consumed: the sanitizer build would see a leak or a double free
}

TEST(Dlpack, RefusesWhatIngotHasNotWithoutConsuming) {
  EXPECT_THROW(to_dlpack(Tensor::zeros({1}, DType::f8e4m3)), NotImplemented);
  DLManagedTensor* capsule = to_dlpack(Tensor::zeros({1}));
  capsule->dl_tensor.dtype.lanes = 4;
  EXPECT_THROW(from_dlpack(capsule), NotImplemented);
  capsule->dl_tensor.dtype.lanes = 1;
  capsule->dl_tensor.device.device_type = kDLMetal;
  EXPECT_THROW(from_dlpack(capsule), DeviceNotAvailable);
  capsule->deleter(capsule);
}

TEST(TensorBuffer, SharesContiguousMemoryAndPacksTheRest) {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(static_cast<const void*>(TensorBuffer(x).bytes().data()), x.view().data);
  const TensorBuffer packed(transposed(x));
  EXPECT_EQ(packed.to_tensor().to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(packed.size_bytes(), 24U);
}

TEST(DeviceConfig, FirstSetVariableWinsPerSetting) {
  ::setenv("VSA_OPTIM_FORCE_CPU", "true", 1);
  ::setenv("AXOLOTL_CUDA_DEVICE", "3", 1);
  ::setenv("VSA_OPTIM_CUDA_DEVICE", "5", 1);
  const DeviceConfig config = DeviceConfig::from_env();
  EXPECT_TRUE(config.force_cpu);
  EXPECT_EQ(config.cuda_device, 3);
  ::setenv("INGOT_FORCE_CPU", "0", 1);
  EXPECT_FALSE(DeviceConfig::from_env().force_cpu);
  for (const char* name :
       {"VSA_OPTIM_FORCE_CPU", "AXOLOTL_CUDA_DEVICE", "VSA_OPTIM_CUDA_DEVICE", "INGOT_FORCE_CPU"}) {
    ::unsetenv(name);
  }
  EXPECT_THROW(get_device({.cuda_device = -1}), InvalidConfig);
}

TEST(DeviceConfig, TheCpuIsWarnedOfOnceAndOnlyWhereNobodyChoseIt) {
  const auto said = [](const DeviceConfig& config) {
    ::testing::internal::CaptureStderr();
    EXPECT_TRUE(get_device(config).is_cpu());
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said({.force_cpu = true}), "");
  EXPECT_EQ(said({}), "") << "nobody expects a GPU of a build that cannot use one";
  expect_gpu();
  EXPECT_NE(
      said({.program = "some tool"})
          .find("some tool: no CUDA device found (this build has no CUDA backend), running on the CPU. Set "
                "INGOT_FORCE_CPU=1"),
      std::string::npos);
  EXPECT_EQ(said({}), "");
}

TEST(Device, ParseAndPrintAgree) {
  EXPECT_EQ(parse_device("cuda:3"), (Device{DeviceType::cuda, 3}));
  EXPECT_EQ(parse_device("cuda"), (Device{DeviceType::cuda, 0}));
  EXPECT_EQ(to_string(parse_device("cpu")), "cpu");
  EXPECT_THROW(parse_device("cuda:x"), InvalidConfig);
  EXPECT_THROW(parse_device("gpu"), InvalidConfig);
  EXPECT_THROW(parse_device("cuda:200"), InvalidConfig);
}

TEST(Device, AKindIsRegisteredOnceAndByANameThatSettingsCanHave) {
  static const DeviceType kind = register_device_type("npu_2");  // once in a process, however often this runs
  EXPECT_EQ(name(kind), "npu_2");
  EXPECT_EQ(device_types().back(), kind);
  EXPECT_EQ(parse_device("npu_2:5"), (Device{kind, 5}));
  EXPECT_EQ(to_string(Device{kind, 5}), "npu_2:5");
  for (const char* taken : {"cpu", "cuda", "npu_2", "auto", "", "NPU", "a:b"})
    EXPECT_THROW(register_device_type(taken), InvalidConfig) << taken;
}

TEST(Shape, SizesThatWrapAreRefused) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  EXPECT_THROW(Shape({kHuge, 4}), DimensionMismatch);
  EXPECT_THROW(Shape({0, kHuge, 4}), DimensionMismatch);  // products of some of the axes would wrap
  EXPECT_THROW(Shape({1}).with(0, -1), DimensionMismatch);
  Shape shape{std::int64_t{1} << 40, 2};
  EXPECT_EQ(shape.numel(), std::int64_t{1} << 41);
  shape[1] = std::int64_t{1} << 40;  // not checked when it is assigned
  EXPECT_THROW(static_cast<void>(shape.numel()), DimensionMismatch);
}

TEST(Shape, BroadcastFollowsNumpyAndNamesBothWhenItCannot) {
  EXPECT_EQ(broadcast_shapes({3, 1, 5}, {4, 1}, "test"), Shape({3, 4, 5}));
  EXPECT_EQ(broadcast_shapes({}, {2}, "test"), Shape({2}));
  EXPECT_EQ(broadcast_shapes({0, 3}, {1, 3}, "test"), Shape({0, 3}));
  try {
    broadcast_shapes({2, 3}, {4}, "add");
    FAIL();
  } catch (const ShapeMismatch& error) {
    EXPECT_EQ(error.expected, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(error.actual, (std::vector<std::int64_t>{4}));
  }
}

}  // namespace
}  // namespace ingot
