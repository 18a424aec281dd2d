#include "ingot/runtime/compute_backend.h"

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/kernels/quantized.h"
#include "ingot/ops/elementwise.h"
#include "ingot/quant/linear.h"

namespace ingot {
namespace {

struct RestoreBackend {
  ~RestoreBackend() { enable_best_cpu(); }
};

Tensor counted(const Shape& shape) {
  Tensor x = Tensor::empty(shape);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = static_cast<float>(i % 17) - 8.25F;
  return x;
}

TEST(ComputeBackend, GivesTheSameMatmulsOnEveryOneThatIsHere) {
  const RestoreBackend restore;
  const quant::PackedPtr weight = quant::quantize_and_pack(counted({40, 256}), "q4_k");
  const std::vector<float> expected = quant::linear(counted({3, 256}), *weight).to_vector<float>();
  const std::vector<float> sums = (counted({3, 256}) + counted({3, 256})).to_vector<float>();
  int tried = 0;
  for (const ComputeBackendChoice& choice : compute_backends()) {
    if (!choice.available || choice.name == "cuda") continue;
    set_compute_backend(choice.name);
    EXPECT_EQ(compute_backend(), choice.name);
    EXPECT_EQ(quant::linear(counted({3, 256}), *weight).to_vector<float>(), expected) << choice.name;
    EXPECT_EQ((counted({3, 256}) + counted({3, 256})).to_vector<float>(), sums) << choice.name;
    ++tried;
  }
  EXPECT_GE(tried, 1);
  set_compute_backend("auto");
  EXPECT_EQ(compute_backend(), auto_detect_backend());
}

TEST(ComputeBackend, LimitsWhatLaunchTakes) {
  const RestoreBackend restore;
  set_compute_backend("cpu");
  for (const auto& implementation : kernels::quantized_matmul.implementations(DeviceType::cpu)) {
    const bool allowed = implementation.needs <= kernels::instruction_set_limit();
    EXPECT_EQ(allowed, std::string_view(implementation.name) == "reference") << implementation.name;
  }
}

TEST(ComputeBackend, RefusesWhatTheMachineLacksAndNamesThatAreNone) {
  const RestoreBackend restore;
  const std::string before = compute_backend();
  for (const ComputeBackendChoice& choice : compute_backends()) {
    if (choice.available) continue;
    EXPECT_THROW(set_compute_backend(choice.name), DeviceNotAvailable) << choice.name;
    EXPECT_EQ(compute_backend(), before);
  }
  try {
    set_compute_backend("cpu-avx215");
    FAIL();
  } catch (const InvalidConfig& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'cpu-avx2'"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ingot
