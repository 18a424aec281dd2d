#include "ingot/runtime/compute_backend.h"

#include <bit>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "ingot/base/error.h"
#include "ingot/kernels/quantized.h"
#include "ingot/ops/cast.h"
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

TEST(ComputeBackend, GivesTheSameProductsOnEveryOneThatIsHere) {
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

// Values of every size that f16 has, below and above it: half-way cases, subnormal and infinite results.
std::vector<float> values_to_round() {
  std::vector<float> values{1.00048828125F, 1.00146484375F, 65519.0F, 65520.0F, 6e-8F, 2.9e-8F, -0.0F};
  for (std::uint32_t i = 0; i < 5000; ++i) {
    values.push_back(std::bit_cast<float>((i * 2654435761U) & 0xc7ffffffU));
  }
  return values;
}

template <class T>
std::vector<std::uint16_t> bits_of(const std::vector<T>& values) {
  std::vector<std::uint16_t> bits;
  for (const T& value : values) bits.push_back(value.bits);
  return bits;
}

TEST(ComputeBackend, RoundsToHalfTypesAlikeOnEveryOneThatIsHere) {
  const RestoreBackend restore;
  const std::vector<float> values = values_to_round();
  const std::vector<f16> f16s(values.begin(), values.end());
  const std::vector<bf16> bf16s(values.begin(), values.end());
  std::vector<float> read_back;  // infinities among them
  for (const f16& value : f16s) read_back.push_back(static_cast<float>(value));
  const Tensor x = Tensor::from(values, {static_cast<std::int64_t>(values.size())});
  for (const ComputeBackendChoice& choice : compute_backends()) {
    if (!choice.available || choice.name == "cuda") continue;
    set_compute_backend(choice.name);
    EXPECT_EQ(bits_of(to(x, DType::f16).to_vector<f16>()), bits_of(f16s)) << choice.name;
    EXPECT_EQ(bits_of(to(x, DType::bf16).to_vector<bf16>()), bits_of(bf16s)) << choice.name;
    EXPECT_EQ(to(to(x, DType::f16), DType::f32).to_vector<float>(), read_back) << choice.name;
  }
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
